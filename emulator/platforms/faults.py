"""Injected faults: the next calls of a method fail in the requested way."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from aiohttp import web

Kind = Literal["status", "delay", "drop", "accept_then_drop"]


@dataclass(slots=True)
class Fault:
    """One fault.

    ``status`` answers an error without doing the work. ``delay`` does the work after *delay_ms*. ``drop`` closes the
    connection without doing the work. ``accept_then_drop`` does the work and closes the connection without an answer.
    *method* None means every method, *chat* None every chat. *times* is the number of calls left to fail.
    """

    kind: Kind
    method: str | None
    chat: str | None
    status: int
    description: str | None
    retry_after: float | None
    delay_ms: int
    times: int

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "Fault":
        """The fault that the JSON object *given* describes. Raises ValueError, whose message says what is wrong."""
        kind = given.get("kind")
        if kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}")
        unknown = set(given) - {"kind", "method", "chat", "status", "description", "retry_after", "delay_ms", "times"}
        if unknown:
            raise ValueError(f"unknown keys of a fault: {', '.join(sorted(unknown))}")
        status, times = int(given.get("status", 500)), int(given.get("times", 1))
        if not 400 <= status <= 599 or times < 1:
            raise ValueError("status must be 400 to 599 and times at least 1")
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
        )


class Faults:
    """The faults of one platform, oldest first."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self._faults.append(fault)

    def clear(self) -> None:
        self._faults.clear()

    def take(self, method: str, chat: str | None) -> Fault | None:
        """The first fault that matches this call, with one time less to go."""
        for fault in self._faults:
            if fault.method in (None, method.lower()) and fault.chat in (None, chat):
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
