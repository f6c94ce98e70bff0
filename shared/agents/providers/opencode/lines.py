"""What ``opencode run --format json`` writes: one JSON object a line, as 1.18.33 does.

A stream that breaks off makes it ask its model again, for ever and up to 15 times a second: after a few steps that
ended for no known reason, or did not end before the next one began, the turn is over here.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from shared.agents.base import Acted, Failed, Init, Progress, ProviderEvent
from shared.agents.providers.opencode import failures
from shared.core.text import half_characters

MOST_BROKEN = 3  # steps in a row

_FINAL = ("stop", "length", "content-filter")


class OpencodeAnswer(msgspec.Struct, frozen=True):
    """A step has ended and no other follows: the answer, or "" where it said nothing."""

    text: str


OpencodeStep = OpencodeAnswer | ProviderEvent


class OpencodeLines:
    """One run. *continuation*: the session that it was to go on in."""

    def __init__(self, continuation: str | None) -> None:
        self._continuation = continuation
        self._session: str | None = None
        self._texts: list[str] = []
        self._broken = 0
        self._is_in_step = False

    def hear(self, line: bytes) -> Iterator[OpencodeStep]:
        """What one line means. ``OpencodeAnswer`` and ``Failed`` end the turn."""
        found = half_characters.read_object(line)
        session = found.get("sessionID")
        if isinstance(session, str) and self._session is None:
            self._session = session
            if self._continuation not in (None, session):
                yield Failed("opencode: it began a new session in place of the chat's", code="session_lost")
                return
            yield Init(session)
        yield from self._read_event(str(found.get("type")), _table(found.get("part")), _table(found.get("error")))

    def _read_event(self, kind: str, part: Mapping[str, Any], error: Mapping[str, Any]) -> Iterator[OpencodeStep]:
        match kind:
            case "step_start":
                self._texts.clear()
                yield Progress("opencode asks its model")
                if self._is_in_step:
                    yield from self._broke()
                self._is_in_step = True
            case "text":
                self._texts.append(str(part.get("text") or ""))
            case "tool_use":
                self._broken = 0
                yield Acted(str(part.get("tool") or "tool"))
            case "step_finish":
                yield from self._end_step(str(part.get("reason")))
            case "error":
                yield failures.of_error(error)

    def _end_step(self, reason: str) -> Iterator[OpencodeStep]:
        self._is_in_step = False
        if reason in _FINAL:
            yield OpencodeAnswer("\n".join(self._texts).strip())
        elif reason == "tool-calls":
            self._broken = 0
        else:
            yield from self._broke()

    def _broke(self) -> Iterator[OpencodeStep]:
        self._broken += 1
        if self._broken >= MOST_BROKEN:
            yield Failed(f"opencode: {MOST_BROKEN} answers of its model in a row broke off", code="malformed")


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
