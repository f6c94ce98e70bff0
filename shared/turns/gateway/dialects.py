"""The three dialects of model APIs: where each counts tokens, how a stream ends, and how a refusal reads.

A stream is passed on as it comes; its lines are looked at as bytes, and only those that may count or end are parsed.
"""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from shared.db.spending.usage import Tokens

MOST_TOKENS = 10**12  # of one kind in one answer; a larger number is nonsense
_TOO_MANY = 402  # stops claude, opencode and pydantic-ai at once; codex retries it


class Dialect(Protocol):
    """One dialect.

    Attributes:
        endings: the words that an ending event of a stream has, as bytes.
        refusal_status: the status that makes the programs of this dialect stop at once.
    """

    endings: ClassVar[tuple[bytes, ...]]
    refusal_status: ClassVar[int]

    def usage(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """The counts in an event of a stream, or in a whole body; empty if it has none."""

    def tokens(self, counts: Mapping[str, Any]) -> Tokens:
        """The counts in our words. A count that is missing or is nonsense is 0."""

    def is_end(self, event: Mapping[str, Any]) -> bool:
        """Whether nothing follows this event."""

    def error(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """The error in an event of a stream; empty if it has none."""

    def refusal(self, sentence: str) -> dict[str, Any]:
        """The body of a refusal."""


class MessagesDialect:
    """Anthropic's messages: counts at the start (input) and with each delta (output); the later ones win."""

    endings: ClassVar[tuple[bytes, ...]] = (b'"message_stop"', b'"error"')
    refusal_status: ClassVar[int] = _TOO_MANY

    def usage(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        return part(event, "usage") or part(part(event, "message"), "usage")

    def tokens(self, counts: Mapping[str, Any]) -> Tokens:
        return Tokens(
            _count(counts, "input_tokens"),
            _count(counts, "output_tokens"),
            _count(counts, "cache_read_input_tokens"),
            _count(counts, "cache_creation_input_tokens"),
        )

    def is_end(self, event: Mapping[str, Any]) -> bool:
        return event.get("type") in ("message_stop", "error")

    def error(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        return part(event, "error")

    def refusal(self, sentence: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "billing_error", "message": sentence}}


class _OpenAI:
    """What OpenAI's two dialects share."""

    def error(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        return part(event, "error") or part(part(event, "response"), "error") or _flat(event)

    def refusal(self, sentence: str) -> dict[str, Any]:
        error = {"message": sentence, "type": "insufficient_quota", "code": "insufficient_quota", "param": None}
        return {"error": error}


class ChatDialect(_OpenAI):
    """OpenAI's chat completions: counts in the last chunk, if the request asks for them; then ``[DONE]``."""

    endings: ClassVar[tuple[bytes, ...]] = (b"[DONE]",)
    refusal_status: ClassVar[int] = _TOO_MANY

    def usage(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        return part(event, "usage")

    def tokens(self, counts: Mapping[str, Any]) -> Tokens:
        cached = _count(part(counts, "prompt_tokens_details"), "cached_tokens")
        return Tokens(max(0, _count(counts, "prompt_tokens") - cached), _count(counts, "completion_tokens"), cached)

    def is_end(self, event: Mapping[str, Any]) -> bool:
        return False  # the end is no JSON


class ResponsesDialect(_OpenAI):
    """OpenAI's responses: counts in the last event."""

    endings: ClassVar[tuple[bytes, ...]] = (
        b'"response.completed"',
        b'"response.incomplete"',
        b'"response.failed"',
        b'"error"',
    )
    refusal_status: ClassVar[int] = 429  # with insufficient_quota, and without retry-after: codex stops at once

    def usage(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        return part(part(event, "response"), "usage") or part(event, "usage")

    def tokens(self, counts: Mapping[str, Any]) -> Tokens:
        cached = _count(part(counts, "input_tokens_details"), "cached_tokens")
        return Tokens(max(0, _count(counts, "input_tokens") - cached), _count(counts, "output_tokens"), cached)

    def is_end(self, event: Mapping[str, Any]) -> bool:
        return event.get("type") in ("response.completed", "response.incomplete", "response.failed", "error")


def with_usage(body: dict[str, Any]) -> dict[str, Any] | None:
    """The body of a streamed chat request that asks for the counts; None: it asks already, or is not streamed."""
    options = body.get("stream_options")
    known = options if isinstance(options, dict) else {}
    if body.get("stream") is not True or known.get("include_usage") is True:
        return None
    return {**body, "stream_options": {**known, "include_usage": True}}


def parsed(data: bytes) -> dict[str, Any]:
    """The JSON object; empty where *data* is none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def part(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object under this name; empty where there is none."""
    found = of.get(name)
    return found if isinstance(found, dict) else {}


def _flat(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return event if event.get("type") == "error" else {}


def _count(counts: Mapping[str, Any], name: str) -> int:
    found = counts.get(name)
    return found if type(found) is int and 0 <= found <= MOST_TOKENS else 0
