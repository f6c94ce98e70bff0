"""Counts the tokens of one answer while it is passed on, and sees whether a stream came to its end."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from shared.db.spending.usage import Tokens
from shared.turns.gateway.dialects import MOST_TOKENS, Dialect, parsed
from shared.turns.gateway.ledger import Estimate

_MOST_BYTES = 32 * 1024 * 1024  # of a line or a body that is counted; a longer one is estimated
_BYTES_A_TOKEN = 4  # of an estimate


_USUAL_OUTPUT, _MOST_OUTPUT = 1000, 4096  # of a request that names no limit
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def estimate(fields: Mapping[str, Any], request_bytes: int) -> Estimate:
    """What a request takes, before it goes out."""
    given = [each for name in _LIMITS if type(each := fields.get(name)) is int and 0 < each <= MOST_TOKENS]
    most = max(given, default=_MOST_OUTPUT)
    asked = request_bytes // _BYTES_A_TOKEN
    return Estimate(Tokens(asked, min(most, _USUAL_OUTPUT)), Tokens(asked, most))


class StreamMeter:
    """Reads the events of a stream, however the network cuts them.

    Args:
        request_bytes: the size of the request, for an estimate where the stream says nothing.

    Attributes:
        is_complete: whether the last event came.
        error: the first error in an event; empty if there was none.
    """

    def __init__(self, dialect: Dialect, request_bytes: int) -> None:
        self._dialect = dialect
        self._request_bytes = request_bytes
        self._line = bytearray()
        self._counts: dict[str, Any] = {}
        self._events = 0
        self.is_complete = False
        self.error: Mapping[str, Any] = {}

    def feed(self, chunk: bytes) -> None:
        """Look at the next bytes."""
        first, *rest = chunk.split(b"\n")
        if len(self._line) <= _MOST_BYTES:
            self._line += first
        for following in rest:
            self._read(bytes(self._line))
            self._line = bytearray(following)

    def end(self) -> None:
        """The stream is over: its last line may lack a line break."""
        self._read(bytes(self._line))
        self._line.clear()

    def tokens(self) -> Tokens:
        """The counts so far. What a stream that was cut did not say is estimated: it cost something all the same."""
        counted = self._dialect.tokens(self._counts)
        if self.is_complete and self._counts:
            return counted
        is_input_known = counted.input + counted.cache_read + counted.cache_write > 0
        given = counted.input if is_input_known else self._request_bytes // _BYTES_A_TOKEN
        return counted._replace(input=given, output=max(counted.output, self._events))

    def _read(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        self._events += 1
        may_count = b'"usage"' in line
        may_end = any(word in line for word in self._dialect.endings)
        if not (may_count or may_end or b'"error"' in line):
            return
        data = line[5:].strip()
        if data == b"[DONE]":
            self.is_complete = self.is_complete or b"[DONE]" in self._dialect.endings
            return
        event = parsed(data)
        self._counts |= _known(self._dialect.usage(event))
        self.error = self.error or self._dialect.error(event)
        self.is_complete = self.is_complete or self._dialect.is_end(event)


class BodyMeter:
    """Reads an answer that is not streamed."""

    is_complete = True
    error: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def __init__(self, dialect: Dialect, request_bytes: int) -> None:
        self._dialect = dialect
        self._request_bytes = request_bytes
        self._body = bytearray()
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        """Look at the next bytes."""
        self._size += len(chunk)
        if self._size <= _MOST_BYTES:
            self._body += chunk

    def end(self) -> None:
        """The body is whole."""

    def tokens(self) -> Tokens:
        """The counts of the body; an estimate by size where it has none."""
        if counts := self._dialect.usage(parsed(bytes(self._body))):
            return self._dialect.tokens(counts)
        return Tokens(self._request_bytes // _BYTES_A_TOKEN, self._size // _BYTES_A_TOKEN)


Meter = StreamMeter | BodyMeter


def _known(counts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: count for name, count in counts.items() if count is not None}
