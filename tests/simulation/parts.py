"""What a world can have beside its machine: people on a platform, a program at the API. A seed chooses its parts."""

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

import apsw

from tests.simulation.faults import Fault
from tests.simulation.machine.process import Answer
from tests.simulation.machine.wires import Host
from tests.simulation.people.lines import Line

Query = Callable[[str], list[tuple[Any, ...]]]
Work = Coroutine[Any, Any, None]


class Surroundings(Protocol):
    """A world, as its parts see it."""

    span_s: float

    def dice(self, name: str) -> random.Random:
        """Chance for one purpose: a fault less changes nothing of the others."""

    def tell(self, line: str) -> None:
        """Add a line to the story."""

    def now_s(self) -> float:
        """Virtual time since the world began."""

    def wall_ms(self) -> int:
        """What the machine's clock says, which somebody may have set."""

    @property
    def is_clock_steady(self) -> bool:
        """Nobody sets the machine's clock."""

    @property
    def is_calm(self) -> bool:
        """Nothing happens to the machine."""

    @property
    def are_ids_unique(self) -> bool:
        """No event has the id of a lost one: the power was not cut, and no disk was lost where the clock is set."""

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows that the world is judged by."""

    def note_thinking(self, account: str, chat: str) -> None:
        """A bot shows in a chat that it is at work."""

    def kill(self, function: str) -> None:
        """Its newest process dies."""

    async def ask(
        self,
        function: str,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        on_piece: Callable[[bytes], None] | None = None,
    ) -> Answer:
        """What of a function is there at the moment answers; raises ``Reset``, as :meth:`Process.ask`."""


class WorldPart:
    """One part of a world. What a part does not say, it does not have."""

    def settings(self) -> Mapping[str, str]:
        """Of the environment of the processes."""
        return {}

    def hosts(self) -> Mapping[object, Host]:
        """What listens on the wires, by its address."""
        return {}

    def furnish(self, conn: apsw.Connection, now_ms: int) -> None:
        """Write what an operator has made in the new database before anything runs."""

    def faults(self) -> Sequence[Fault]:
        """What goes wrong in a world that has this part, beside the plan of its seed."""
        return []

    def work(self) -> Sequence[Work]:
        """What this part does; when all of it has ended, the world settles."""
        return []

    def lasting(self) -> Sequence[Work]:
        """What it does until the world ends."""
        return []

    def lines(self) -> Mapping[str, Line]:
        """All that was written, by its text."""
        return {}

    def is_behind(self, query: Query) -> bool:
        """Whether it has still to hear of what happened, though all work has ended."""
        return False

    def problems(self, query: Query, *, is_history_whole: bool) -> list[str]:
        """What is wrong at the end; *is_history_whole*: no row was lost with a disk or at a cut of the power."""
        return []

    def counts(self, query: Query) -> Counter[str]:
        """What it did, for the totals of a run."""
        return Counter()
