"""Injected faults: calls of a method fail in the requested way, so often, or for so long."""

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

from aiohttp import web

from emulator.platforms.config import Clock
from shared.core.time.durations import time_span

Kind = Literal["status", "delay", "drop", "accept_then_drop"]
_KEYS = frozenset(
    ("kind", "method", "chat", "status", "description", "retry_after", "delay_ms", "times", "every", "for_ms")
)


@dataclass(slots=True)
class Fault:
    """One fault.

    ``status`` answers an error without doing the work. ``delay`` does the work after *delay_ms*. ``drop`` closes the
    connection without doing the work. ``accept_then_drop`` does the work and closes the connection without an answer.
    *method* None means every method, *chat* None every chat. Of the calls that match each *every*-th fails, until
    *times* of them have failed, or for *for_ms* from when it was added; None: until the fault is lifted.
    """

    kind: Kind
    method: str | None
    chat: str | None
    status: int
    description: str | None
    retry_after: float | None
    delay_ms: int
    times: int | None
    every: int
    for_ms: int | None
    until_ms: int | None = None
    id: int = 0
    seen: int = 0

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "Fault":
        """The fault that the JSON object *given* describes; without a number, a share and a duration it fails once.

        Raises:
            ValueError: the message says what is wrong.
        """
        kind = given.get("kind")
        if kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}")
        unknown = set(given) - _KEYS
        if unknown:
            raise ValueError(f"unknown keys of a fault: {', '.join(sorted(unknown))}")
        status, every, for_ms = int(given.get("status", 500)), int(given.get("every", 1)), given.get("for_ms")
        once = None if "every" in given or for_ms is not None else 1
        times = None if given.get("times", once) is None else int(given.get("times", once))
        if not 400 <= status <= 599 or min(every, times or 1, 1 if for_ms is None else int(for_ms)) < 1:
            raise ValueError("status must be 400 to 599, and times, every and for_ms at least 1")
        method, chat, retry_after = given.get("method"), given.get("chat"), given.get("retry_after")
        return cls(
            kind=cast(Kind, kind),
            method=str(method).lower() if method is not None else None,
            chat=str(chat) if chat is not None else None,
            status=status,
            description=given.get("description"),
            retry_after=float(retry_after) if retry_after is not None else None,
            delay_ms=int(given.get("delay_ms", 1000)),
            times=times,
            every=every,
            for_ms=None if for_ms is None else int(for_ms),
        )


def as_facts(fault: Fault) -> dict[str, Any]:
    """The fault as JSON, with a ``sentence`` about it."""
    what = {
        "status": f"answers {fault.status}",
        "delay": f"answers after {fault.delay_ms} ms",
        "drop": "does nothing and gives no answer",
        "accept_then_drop": "does the work and gives no answer",
    }[fault.kind]
    where = f" to {fault.method or 'any call'}" + (f" in chat {fault.chat}" if fault.chat else "")
    share = "" if fault.every == 1 else f", one time in {fault.every}"
    left = {None: "", 1: ", once more"}.get(fault.times, f", {fault.times} more times")
    until = "" if fault.until_ms is None else f", for {time_span(fault.for_ms or 0)}"
    return {**asdict(fault), "sentence": what + where + share + left + until}


class Faults:
    """The faults of one platform, oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._faults: list[Fault] = []
        self._ids = itertools.count(1)

    def add(self, fault: Fault) -> Fault:
        fault.id = next(self._ids)
        fault.until_ms = None if fault.for_ms is None else self._clock.now_ms() + fault.for_ms
        self._faults.append(fault)
        return fault

    def lift(self, id_: int | None = None) -> int:
        """Lift the fault with that id, or all; returns how many there were."""
        before = len(self._faults)
        self._faults = [] if id_ is None else [fault for fault in self._faults if fault.id != id_]
        return before - len(self._faults)

    def standing(self) -> list[Fault]:
        """Those that are not over."""
        now_ms = self._clock.now_ms()
        self._faults = [fault for fault in self._faults if fault.until_ms is None or fault.until_ms > now_ms]
        return list(self._faults)

    def take(self, method: str, chat: str | None) -> Fault | None:
        """The first fault that this call is to have; it has one time less to go."""
        for fault in self.standing():
            if fault.method in (None, method.lower()) and fault.chat in (None, chat):
                fault.seen += 1
                if fault.seen % fault.every:
                    continue
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                return fault
        return None


def hang_up(request: web.Request) -> web.Response:
    """Close the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
