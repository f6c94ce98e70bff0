"""Of two processes of a function, one works: no turn and no send begins while another process has one under way.

Nor does a session have two turns at once in one process, or a chat two sends: one that lost its lease, because its
process stood still, runs on until it notices, and the next waits for that.

The loop of the world tells of each task, and a task knows its process.
"""

import operator
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.simulation.machine.loop import NumberedTask


class _Job(NamedTuple):
    """*word*, *words*: what it is, one and many. *argument*: of its coroutine, in which *of* is the row it is for."""

    word: str
    words: str
    argument: str
    of: Callable[[Any], int]


JOBS = {
    "Dispatch._run": _Job("a turn of session", "turns", "turn", operator.attrgetter("claim.session_id")),
    "Deliver._send": _Job("a send to chat", "sends", "sending", operator.attrgetter("response.chat_id")),
}
"""By the names of their coroutines."""


class OneWorks:
    """Looks at each job as it begins."""

    def __init__(self, fail: Callable[[list[str]], None]) -> None:
        self._fail = fail
        self._begun: Counter[str] = Counter()
        self._running: dict[str, list[tuple[NumberedTask, int]]] = defaultdict(list)

    def look(self, task: NumberedTask) -> None:
        """The task is about to begin."""
        coro: Any = task.get_coro()
        name = getattr(coro, "__qualname__", "")
        if name not in JOBS:
            return
        job = JOBS[name]
        mine = job.of(coro.cr_frame.f_locals[job.argument])
        running = [each for each in self._running[name] if not (each[0].done() or each[0].lane.is_dead)]
        self._fail([
            f"{task.lane} began {job.word} {mine} while {other.lane} had one of {its}"
            for other, its in running
            if other.lane is not task.lane or its == mine
        ])  # fmt: skip
        self._running[name] = [*running, (task, mine)]
        self._begun[job.words] += 1

    def counts(self) -> Counter[str]:
        """How many there were."""
        return self._begun
