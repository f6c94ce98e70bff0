"""What the gateway reads of a model request: the model, by which it is paid for, and whether the answer is streamed.

A request that could mean one thing here and another one at the host is refused.
"""

import json
import zlib
from typing import Any, NamedTuple

from shared.turns.gateway import compression
from shared.turns.gateway.headers import Headers

MOST_BYTES = 64 * 1024 * 1024
_MOST_OBJECTS = 200_000
_LONGEST_NAME = 200  # characters of a model's name


class RequestUnreadable(Exception):
    """The request can't be passed on: the status of the answer, and why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class ModelRequest(NamedTuple):
    """A request. *body*: not compressed."""

    model: str
    is_stream: bool
    fields: dict[str, Any]
    body: bytes


def read(headers: Headers, body: bytes) -> ModelRequest:
    """The request of a program.

    Raises:
        RequestUnreadable: it is no JSON object with one model, or is compressed in a way that we can't read.
    """
    plain = _plain(headers, body)
    try:
        fields = json.loads(plain, object_pairs_hook=_Objects().read)
    except (ValueError, RecursionError):
        raise RequestUnreadable(
            400, f"the body is no JSON object, names something twice, or has more than {_MOST_OBJECTS} objects"
        ) from None
    model = fields.get("model") if isinstance(fields, dict) else None
    if not isinstance(model, str) or not 0 < len(model) <= _LONGEST_NAME:
        raise RequestUnreadable(400, "the body names no model")
    return ModelRequest(model, fields.get("stream") is True, fields, plain)


def _plain(headers: Headers, body: bytes) -> bytes:
    try:
        reader = compression.reader(headers)
    except compression.CodingUnknown:
        raise RequestUnreadable(
            415, "the body is compressed in a way that the gateway can't read: send it plain"
        ) from None
    if reader is None:
        return body
    try:
        plain = reader.decompress(body, MOST_BYTES)
    except zlib.error:
        raise RequestUnreadable(400, "the body is not compressed as its header says") from None
    if reader.unconsumed_tail:
        raise RequestUnreadable(413, f"the request is larger than {MOST_BYTES} bytes")
    if not reader.eof:
        raise RequestUnreadable(400, "the body is not compressed as its header says")
    return plain


class _Objects:
    """Reads the objects of one body, so many at most: each costs dispatch some time."""

    def __init__(self) -> None:
        self._count = 0

    def read(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """One object. A name that stands twice could mean one thing here and another one at the host."""
        self._count += 1
        found = dict(pairs)
        if len(found) != len(pairs) or self._count > _MOST_OBJECTS:
            raise ValueError
        return found
