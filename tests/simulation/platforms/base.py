"""What all platforms of the world share: the moods in which a call is met, and what people write and see there."""

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from shared.core import accounts
from tests.simulation.machine.wires import Asked, Told
from tests.simulation.parts import Surroundings, Work
from tests.simulation.platforms.forms import Uploads
from tests.simulation.platforms.messages import Arrival, Place, SentFile, Written, name_in

OK, SLOW, BUSY, BROKEN, TAKEN_BROKEN, LOST, TAKEN_LOST, SILENT, TAKEN_SILENT = (
    *("ok", "slow", "busy", "broken", "taken-broken", "lost", "taken-lost", "silent", "taken-silent"),
)
BOT = "7"
MOODS = (OK, SLOW, BUSY, BROKEN, TAKEN_BROKEN, LOST, TAKEN_LOST, SILENT, TAKEN_SILENT)
_LONGEST_ANSWER = 5_000  # bytes; what is longer is a file
TAKES = (OK, SLOW, TAKEN_BROKEN, TAKEN_LOST, TAKEN_SILENT)


class Platform(ABC):
    """One bot, in both directions.

    Attributes:
        account: its name; a further account of a platform has a bot, a token and an address of its own.
        bot: the digit of a further account, in the marks of its places.
        unsteady: how many of a hundred calls meet a mood other than ``ok`` at the moment.
        arrivals: what people got, in order.
        written: what people wrote, by its text.
        deleted: what people deleted, by the text of the message, as in ``written``.
        removed: chat and number of what the bot has deleted.
        files: all that people and agents may send, by their names.
        wrong: what a platform sees that must not be.
    """

    NAME: ClassVar[str]

    def __init__(self, world: Surroundings, *, word: str = "") -> None:
        self._world = world
        self.account = accounts.name_of(self.NAME, word)
        self.bot = BOT if word else ""
        self.address = (f"{self.account}.test", 80)
        self._dice: random.Random = world.dice(self.account)
        self.unsteady = 0.0
        self.arrivals: list[Arrival] = []
        self.written: dict[str, Written] = {}
        self.deleted: dict[str, Written] = {}
        self.wrong: list[str] = []
        self.calls: Counter[str] = Counter()
        self.removed: set[tuple[str, str]] = set()
        self.files: dict[str, SentFile] = {}

    def settings(self) -> Mapping[str, str]:
        """Of the environment of the processes."""
        return {f"{accounts.prefix_of(self.account)}{name}": value for name, value in self._own_settings().items()}

    @abstractmethod
    def _own_settings(self) -> Mapping[str, str]:
        """By their names without the account."""

    def lasting(self) -> Sequence[Work]:
        """What it does until the world ends."""
        return []

    # What Postroom calls.

    def host(self, asked: Asked) -> Told | None:
        how = OK
        if self.unsteady and self._dice.random() * 100 < self.unsteady:
            how = self._dice.choice(MOODS)
        self.calls[how] += 1
        told = self._take(asked) if how in TAKES else Told()
        match how:
            case "ok":
                return told
            case "slow":
                told.after_s = self._dice.uniform(0.5, 20.0)
                return told
            case "busy":
                return self._busy()
            case "broken" | "taken-broken":
                return self._broken()
            case "lost" | "taken-lost":
                is_file = len(told.body) > _LONGEST_ANSWER
                told.cut = self._dice.randrange(len(told.body)) if is_file else self._dice.choice([0, 20, 60])
                return told
            case _:
                return None

    @abstractmethod
    def _take(self, asked: Asked) -> Told:
        """Do what is asked, and say so."""

    def _content(self, name: str) -> Told:
        """A file of its servers."""
        return Told(body=self.files[name].content, headers={"Content-Type": "application/octet-stream"})

    def _uploaded(self, uploads: Uploads) -> tuple[str, ...]:
        """The names of files that came. Each has the bytes that a person sent, or an agent has."""
        names = tuple(name_in(content) for _, content in uploads)
        for name, (given, content) in zip(names, uploads, strict=True):
            if name not in self.files or self.files[name].content != content:
                self.wrong.append(
                    f"the file {given!r} arrived with {len(content)} bytes, and is not {name!r} as it was"
                )
        return names

    def _think(self, chat: str) -> bool:
        """The bot shows that it types."""
        self._world.note_thinking(self.account, chat)
        return True

    @abstractmethod
    def _busy(self) -> Told:
        """The answer of a bot that called too often."""

    @abstractmethod
    def _broken(self) -> Told:
        """The answer of servers that failed."""

    # What people do.

    def write(self, place: Place, text: str, *, edits: Written | None = None, is_command: bool = False) -> Written:
        """A person has written; nothing of it is delivered yet."""
        assert text not in self.written, "texts tell messages apart"
        event = self._next_number()
        number = event if edits is None else edits.number
        made = Written(event, number, place, text, is_edit=edits is not None, is_command=is_command)
        self.written[text] = made
        return made

    @abstractmethod
    def send(self, place: Place, text: str, files: Sequence[SentFile]) -> list[Written]:
        """A person has sent files with a text below them: the events that tell of it, in order."""

    def _sent(self, place: Place, text: str, files: Sequence[SentFile], album: str) -> Written:
        made = Written(number := self._next_number(), number, place, text, files=tuple(files), album=album)
        self.written[made.key] = made
        self.files |= {file.name: file for file in files}
        return made

    def delete(self, written: Written) -> Written | None:
        """A person has deleted a message; None: this platform does not tell of it."""
        return None

    def press(self, place: Place, arrival: Arrival, button: str) -> Written:
        """A person has pressed a button below *arrival*."""
        data = arrival.buttons[button]
        return Written(self._next_number(), arrival.number, place, arrival.text, presses=data, is_command=True)

    @abstractmethod
    def _next_number(self) -> int:
        """The platform's id of the next message or event."""

    @abstractmethod
    def key_of(self, written: Written) -> str:
        """By which Postroom knows the event of a message, on each delivery."""

    @abstractmethod
    async def bring(self, written: Written, dice: random.Random) -> None:
        """Deliver an event as this platform does."""
