"""What people write and what they see, and where."""

import random
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Place:
    """Where a person writes: a direct chat, a group, or one topic of a group."""

    chat: str
    thread: str | None
    sender: str
    is_group: bool = False
    bot: str = ""  # the digit of a further account, to which the person speaks there

    @property
    def mark(self) -> str:
        """Begins the mark of each text that is written here, and of what agents answer to it."""
        return mark_of(self.chat, self.thread, self.bot)


def mark_of(chat: str, thread: str | None, bot: str) -> str:
    """The mark of a place. Chats of two platforms have other numbers; those of two bots may have the same."""
    return f"c{bot}{chat.strip('-')}t{thread or 0}"


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file. Its content follows from its name, with which it begins, and is like no other."""

    name: str
    size: int
    is_photo: bool = False

    @property
    def content(self) -> bytes:
        return f"{self.name}\n".encode() + random.Random(self.name).randbytes(self.size)


def name_in(content: bytes) -> str:
    """The name of the file that has this content, or had it before it was spoiled."""
    return content.partition(b"\n")[0][:100].decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A text that a person sees in a chat; *number* is the platform's id of it."""

    chat: str
    thread: str | None
    text: str
    at_s: float
    number: int
    buttons: dict[str, str]  # their data, by their words
    files: tuple[str, ...] = ()  # by their names
    bot: str = ""  # the digit of a further account, which sent it

    @property
    def mark(self) -> str:
        return mark_of(self.chat, self.thread, self.bot)


@dataclass(slots=True)
class Written:
    """One event of a person, and the answers to its deliveries (0: none came).

    Attributes:
        number: of the message; an edit has that of what it changes.
        presses: the data of the button that is pressed; the text is then what stands above it.
        is_command: it is said by a command, which its platform delivers once.
        is_deletion: it tells that the message of this number is deleted.
        files: what it brings along; the text is then below it.
        album: the same for the pieces that are one message.
        began_s: when it was brought first.
        answered_s: when it was accepted.
    """

    event: int
    number: int
    place: Place
    text: str
    is_edit: bool = False
    presses: str = ""
    is_command: bool = False
    is_deletion: bool = False
    files: tuple[SentFile, ...] = ()
    album: str = ""
    began_s: float = 0.0
    answered_s: float = 0.0
    accepted: bool = False
    statuses: list[int] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Tells it from all others."""
        return f"file {self.files[0].name}" if self.files else self.text
