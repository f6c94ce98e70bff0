"""What goes out through a channel: parts with their files and buttons, and where each goes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

FileKind = Literal["document", "photo", "video", "audio", "voice", "animation"]


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """A file to send. It stays in place until the response that names it is pruned.

    Attributes:
        path: where the bytes are.
        name: the safe name that the person sees.
        media_type: such as ``image/png``; by the file's content where that tells.
        size: in bytes, as when it was handed over.
        kind: how it should appear. A platform that can't show this kind shows a document.
    """

    path: Path
    name: str
    media_type: str
    size: int
    kind: FileKind = "document"


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of an answer that one platform message can hold: a text, or files (an album) with their caption.

    Attributes:
        text: the text as the person reads it, in the platform's plain or marked-up form; a caption where *files* are.
        html: the same as HTML, where the platform wants it separately; None otherwise.
        files: sent together, all or none.
    """

    text: str
    html: str | None = None
    files: tuple[OutgoingFile, ...] = ()


class Button(msgspec.Struct, frozen=True):
    """A button under a message.

    Attributes:
        label: the text on the button.
        token: comes back as ``Event.text`` when a person presses the button: 1 to 64 bytes. It grants no permission.
    """

    label: str
    token: str


class Sent(msgspec.Struct, frozen=True):
    """A part that reached the platform.

    Attributes:
        message_id: the platform's id of the message, or of the first message of an album; None where it gives none.
        also: the ids of the further messages of an album, in order.
    """

    message_id: str | None
    also: tuple[str, ...] = ()


class FileLimits(msgspec.Struct, frozen=True):
    """The files that a channel takes in one message.

    Attributes:
        most_bytes: of one file.
        most_bytes_of: of one file of a kind with a limit of its own.
        most_in_album: files of one message; 1: each goes out as its own message.
    """

    most_bytes: int
    most_bytes_of: Mapping[FileKind, int] = msgspec.field(default_factory=dict)
    most_in_album: int = 1

    def most(self, kind: FileKind) -> int:
        """The largest file of *kind*, in bytes."""
        return self.most_bytes_of.get(kind, self.most_bytes)


class Evidence(msgspec.Struct, frozen=True):
    """What a platform shows of a part that was sent without an answer.

    Attributes:
        verdict: ``absent``: it did not arrive; ``repeatable``: the platform recognises a repetition, so sending again
            is harmless; ``none``: the platform shows nothing either way.
        message_ids: of ``arrived``: the messages that can be this part, oldest first; at least one.
    """

    verdict: Literal["arrived", "absent", "repeatable", "none"]
    message_ids: tuple[str, ...] = ()


class BotRequest(msgspec.Struct, frozen=True):
    """Asks a person to make a bot that ours will manage, with one tap.

    Attributes:
        request_id: a positive 31-bit number, unique in the message.
        name: the bot's name, as a suggestion.
        username: its user name, as a suggestion.
    """

    request_id: int
    name: str
    username: str


class Poll(msgspec.Struct, frozen=True):
    """A poll of the platform's own kind.

    Attributes:
        is_multiple: a person may choose several options.
        hours: after which it closes.
    """

    question: str
    options: tuple[str, ...]
    is_multiple: bool
    hours: int


class PollLimits(msgspec.Struct, frozen=True):
    """The polls that a channel has; lengths in characters."""

    most_options: int
    longest_question: int
    longest_option: int
    most_hours: int


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The destination of one part.

    Attributes:
        response_id: ``responses.id``; with *part_index* it identifies this part, the same on every retry.
        reply_to: the ``platform_message_id`` of the message to reply to, or None.
        context: the ``context`` of the event to answer; empty for proactive messages.
        asked_at_ms: when that event arrived, in ms UTC. Tokens that live for minutes are measured from it.
        is_first: this is the first part of the first response to that event.
        is_last: this is the last part of its response.
        buttons: the buttons under this part.
        edits: the platform's id of the message that this part replaces, with its buttons. If that message is gone, the
            adapter sends a new one.
        click: the ``context`` of the button press that this part answers. Without *edits*, only the person who pressed
            the button sees the part; where others read too, it fails rather than being sent to everybody.
        bot_request: offers the person to make a bot, where ``Traits.manages_bots``.
        poll: goes out in place of the part, where ``Traits.polls``; the part's text says the same.
        sticker: goes out in place of the part, where ``Traits.has_stickers``: what ``Event.attachments`` says of one.
    """

    response_id: int
    part_index: int
    platform_id: str
    thread_id: str | None
    reply_to: str | None
    context: Mapping[str, Any]
    asked_at_ms: int
    is_first: bool
    is_last: bool = True
    buttons: tuple[Button, ...] = ()
    edits: str | None = None
    click: Mapping[str, Any] | None = None
    bot_request: BotRequest | None = None
    poll: Poll | None = None
    sticker: Mapping[str, Any] | None = None
