"""Faults on order: what can fail, in which ways, how often and for how long.

``TARGETS`` and ``KINDS`` are the one list of them: the options of ``emulator fault add``, its help, the sentences and
the table in docs/cli.md come from it.
"""

import itertools
import json
import math
import os
import random
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from emulator.base.fakes import FAKES
from shared.conversation.alerts import faults_by_hand
from shared.core.time import clock
from shared.core.time.durations import time_span
from shared.db.engine.owner_only import replace_text

READ_AGAIN = signal.SIGUSR2  # to the processes that fail by some of them: the file has changed


class FaultKind(NamedTuple):
    """A way to fail, for a person: *help* of an option, and the *sentence* about a fault."""

    help: str
    sentence: str


class FaultTarget(NamedTuple):
    """Something that can fail.

    Attributes:
        help: what it is.
        kinds: the ways in which it can.
        of_calls: a fault applies to a number of calls, by default to one; otherwise it lasts until it is lifted.
        method: what ``method`` names among its calls; None: a fault applies to all of them.
        status: of the error, where none is named.
        is_counted: a fault may apply to a number of calls, or to each n-th call.
    """

    help: str
    kinds: tuple[str, ...]
    of_calls: bool = False
    method: str | None = None
    status: int = 500
    is_counted: bool = True


KINDS: Mapping[str, FaultKind] = {
    "status": FaultKind("an error, nothing done", "answers {status}"),
    "delay": FaultKind("done late", "answers after {delay_ms} ms"),
    "drop": FaultKind("no answer, nothing done", "does nothing and gives no answer"),
    "accept_then_drop": FaultKind("done, no answer", "does the work and gives no answer"),
    "cut": FaultKind("done, and the answer ends in the middle", "ends its answer in the middle"),
    "garbage": FaultKind("a page of HTML in place of an answer", "answers with a page of HTML"),
    "slow": FaultKind("each step late", "is late by {delay_ms} ms"),
    "full": FaultKind("no room for a write", "has no room for a write"),
    "broken": FaultKind("a write fails", "fails to write"),
}
_OF_PLATFORM = ("status", "delay", "drop", "accept_then_drop")
TARGETS: Mapping[str, FaultTarget] = {
    **{
        name: FaultTarget(f"the fake {fake.title}", _OF_PLATFORM, of_calls=True, method=fake.method)
        for name, fake in FAKES.items()
    },
    "bucket": FaultTarget("S3, for Litestream", ("status", "delay", "drop", "cut"), method="PUT, GET, …", status=503),
    "models": FaultTarget(
        "the hosts of models",
        ("status", "delay", "drop", "cut", "garbage"),
        of_calls=True,
        method="anthropic, openai, local or speech",
        status=529,
    ),
    "disk": FaultTarget("that of the database, for the functions", ("full", "broken", "slow"), is_counted=False),
    "network": FaultTarget("between the functions and the fake platforms", ("slow",)),
}


@dataclass(slots=True)
class Fault:
    """One fault.

    Each *every*-th of the calls that match fails, or a random share of them, the *rate*. It ends when *times* of them
    have failed, or *for_ms* after it was added; None: when it is lifted. *method* None means every method, *chat* None
    every chat.
    """

    target: str
    kind: str
    method: str | None
    chat: str | None
    status: int
    description: str | None
    retry_after: float | None
    delay_ms: int
    times: int | None
    every: int
    rate: float | None
    for_ms: int | None
    until_ms: int | None = None
    id: int = 0
    seen: int = 0

    @classmethod
    def parse(cls, target: str, given: Mapping[str, Any]) -> "Fault":
        """The fault that the JSON object *given* describes.

        Raises:
            ValueError: the message says what is wrong.
        """
        of, kind = TARGETS[target], given.get("kind")
        if kind not in of.kinds:
            raise ValueError(f"the kind of a fault of {target} must be one of {', '.join(of.kinds)}")
        unknown = set(given) - _KEYS
        if unknown:
            raise ValueError(f"unknown keys of a fault: {', '.join(sorted(unknown))}")
        _check_narrow(target, of, given)
        status, every, for_ms = int(given.get("status", of.status)), int(given.get("every", 1)), given.get("for_ms")
        rate = None if given.get("rate") is None else float(given["rate"])
        is_once = of.of_calls and not {"every", "rate", "for_ms"} & set(given)
        once = 1 if is_once else None
        times = None if given.get("times", once) is None else int(given.get("times", once))
        counts = (every, *(int(each) for each in (times, for_ms) if each is not None))
        if not 400 <= status <= 599 or min(counts) < 1:
            raise ValueError("status must be 400 to 599, and times, every and for_ms at least 1")
        delay_ms, retry_after = int(given.get("delay_ms", 1000)), float(given.get("retry_after") or 0)
        if delay_ms < 0 or not 0 <= retry_after < math.inf:
            raise ValueError("delay_ms and retry_after must be at least 0")
        if rate is not None and (not 0 < rate <= 1 or every != 1):
            raise ValueError("rate must be above 0 and at most 1, and without every")
        method, chat = given.get("method"), given.get("chat")
        return cls(
            target=target,
            kind=kind,
            method=str(method).lower() if method is not None else None,
            chat=str(chat) if chat is not None else None,
            status=status,
            description=given.get("description"),
            retry_after=None if given.get("retry_after") is None else retry_after,
            delay_ms=delay_ms,
            times=times,
            every=every,
            rate=rate,
            for_ms=None if for_ms is None else int(for_ms),
        )

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> "Fault":
        """The fault that :func:`as_facts` described, in another process."""
        return cls(**{each.name: facts[each.name] for each in fields(cls)})


_KEYS = frozenset(
    (
        *("kind", "method", "chat", "status", "description", "retry_after", "delay_ms"),
        *("times", "every", "rate", "for_ms"),
    )
)


def _check_narrow(target: str, of: FaultTarget, given: Mapping[str, Any]) -> None:
    """Refuse options that leave no call of this target to fail."""
    if given.get("method") is not None and of.method is None:
        raise ValueError(f"a fault of {target} has no method")
    if not of.is_counted and (given.get("times") is not None or given.get("every", 1) != 1):
        raise ValueError(
            f"a fault of {target} has no number of calls: each process would count for itself; give a rate"
        )
    if given.get("chat") is not None and of.kinds is not _OF_PLATFORM:
        raise ValueError(f"a fault of {target} has no chat")


def as_facts(fault: Fault) -> dict[str, Any]:
    """The fault as JSON, with a ``sentence`` about it."""
    what = KINDS[fault.kind].sentence.format(status=fault.status, delay_ms=fault.delay_ms)
    calls = TARGETS[fault.target].method is not None
    where = f" to {fault.method or 'any call'}" if calls else ""
    where += f" in chat {fault.chat}" if fault.chat else ""
    share = "" if fault.every == 1 else f", one time in {fault.every}"
    share += "" if fault.rate is None else f", by chance {fault.rate * 100:g} times in 100"
    left = {None: "", 1: ", once more"}.get(fault.times, f", {fault.times} more times")
    until = "" if fault.until_ms is None else f", for {time_span(fault.for_ms or 0)}"
    return {**asdict(fault), "sentence": what + where + share + left + until}


def as_sentence(fault: Fault) -> str:
    """The fault as a sentence, for a person who asks why the system fails."""
    return faults_by_hand.sentence(fault.target, str(as_facts(fault)["sentence"]))


def table() -> str:
    """What can fail in which ways, as a table of Markdown."""
    rows = [
        (f"`{name}`", of.help, "; ".join(f"`{kind}` ({KINDS[kind].help})" for kind in of.kinds))
        for name, of in TARGETS.items()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (("target", "what it is", "kinds"), ("---",) * 3, *rows))


_numbers = itertools.count(1)  # one for all targets


class Faults:
    """The faults of one target, oldest first.

    Args:
        now_ms: the clock by which they end.
        changed: called when a fault was added or lifted, or has no calls left.
        chance: a number from 0 to 1, for each call that may fail by a rate.
    """

    def __init__(
        self,
        target: str,
        now_ms: Callable[[], int],
        *,
        changed: Callable[[], object] = lambda: None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.target = target
        self._now_ms, self._changed, self._chance = now_ms, changed, chance
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        fault.id = next(_numbers)
        fault.until_ms = None if fault.for_ms is None else self._now_ms() + fault.for_ms
        self._faults.append(fault)
        self._changed()
        return fault

    def follow(self, faults: Iterable[Fault]) -> None:
        """Take over faults from another process; a fault that is known here keeps its remaining number of calls."""
        known = {fault.id: fault for fault in self._faults}
        self._faults = [known.get(fault.id, fault) for fault in faults]

    def lift(self, id_: int | None = None) -> int:
        """Lift the fault with that id, or all; returns how many there were."""
        before = len(self._faults)
        self._faults = [] if id_ is None else [fault for fault in self._faults if fault.id != id_]
        if len(self._faults) < before:
            self._changed()
        return before - len(self._faults)

    def standing(self) -> list[Fault]:
        """Those that are not over."""
        if self._faults:
            now_ms = self._now_ms()
            self._faults = [fault for fault in self._faults if fault.until_ms is None or fault.until_ms > now_ms]
        return list(self._faults)

    def take(self, method: str = "", chat: str | None = None) -> Fault | None:
        """The first fault that applies to this call; its remaining number of calls goes down by one."""
        for fault in self.standing():
            if fault.method in (None, method.lower()) and fault.chat in (None, chat):
                fault.seen += 1
                if fault.seen % fault.every or (fault.rate is not None and self._chance() >= fault.rate):
                    continue
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                    self._changed()
                return fault
        return None


class FaultBook:
    """The faults of everything in one emulator, and the file through which its other processes know them.

    They end by the clock of the machine: not every process follows a clock that was moved.

    Args:
        run: the folder of sockets, which gets the file.
        readers: the processes in which some of the faults happen.
    """

    def __init__(self, run: Path, readers: Callable[[], Iterable[int]]) -> None:
        self._file = faults_by_hand.path_in(run)
        self._readers = readers
        self.of = {name: Faults(name, clock.machine_ms, changed=self._publish) for name in TARGETS}

    def standing(self) -> list[Fault]:
        """Those that are not over."""
        return [fault for faults in self.of.values() for fault in faults.standing()]

    def sentences(self) -> list[str]:
        """A sentence for each."""
        return [as_sentence(fault) for fault in self.standing()]

    def learn(self, target: str, id_: int, left: int) -> None:
        """Another process has let a call fail by this fault; *left*: its remaining number of calls."""
        for fault in self.of[target].standing():
            if fault.id == id_:
                fault.times = left
                if left:
                    self._write()  # for the next process, if that one ends
                else:
                    self.of[target].lift(id_)

    def _publish(self) -> None:
        self._write()
        for pid in self._readers():
            _tell(pid)

    def _write(self) -> None:
        facts = [as_facts(fault) for fault in self.standing()]
        replace_text(self._file, json.dumps(facts))


def forget(run: Path) -> None:
    """Remove the faults of an earlier run, which was killed."""
    faults_by_hand.path_in(run).unlink(missing_ok=True)


def _tell(pid: int, program: str | None = None) -> None:
    """Let the process read the file again, and its children of the same *program*, such as a writer process.

    Only processes that handle the signal get it, because it would end the others.
    """
    try:
        own = str(Path(f"/proc/{pid}/exe").readlink())
        if program not in (None, own):
            return
        facts = Path(f"/proc/{pid}/status").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        caught = next(line for line in facts.splitlines() if line.startswith("SigCgt:"))
        if int(caught.split()[1], 16) >> (READ_AGAIN - 1) & 1:
            os.kill(pid, READ_AGAIN)
    except (OSError, StopIteration):  # it has ended, or this system has no /proc
        return
    for child in children:
        _tell(int(child), own)
