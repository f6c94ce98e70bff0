"""A span, and its ids: hashes of the rows' own ids, so that a second export makes the same spans.

The ids of a trace can be made from any row or log line: the first 32 hexadecimal digits of SHA-256 of a message's id.
"""

import hashlib
from typing import Literal, NamedTuple

SpanKind = Literal["internal", "producer", "consumer"]
Value = str | int


class SpanNote(NamedTuple):
    """Something that happened within a span."""

    name: str
    at_ms: int
    attributes: dict[str, Value] = {}  # noqa: RUF012 - of a tuple, and never changed


class TraceSpan(NamedTuple):
    """What is exported. *of*: the message of its trace; *key*: what makes it differ from the others there.

    *parent*: the key of another span of the trace; None: it is the root. *links*: messages whose root it belongs to as
    well. *error*: a code; None: it ended well.
    """

    of: str
    key: str
    name: str
    kind: SpanKind
    start_ms: int
    end_ms: int
    parent: str | None
    attributes: dict[str, Value]
    error: str | None = None
    notes: tuple[SpanNote, ...] = ()
    links: tuple[str, ...] = ()


ROOT = "message"


def trace_id(message_id: str) -> str:
    """The trace of a message."""
    return hashlib.sha256(message_id.encode()).hexdigest()[:32]


def span_id(message_id: str, key: str) -> str:
    """A span of it."""
    return hashlib.sha256(f"{message_id} {key}".encode()).hexdigest()[:16]
