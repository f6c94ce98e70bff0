"""What an error of a model's host means for the turn: its status, its headers, and the words in its body.

Hosts say the same in different ways: a plan that is used up is a 429 with headers, a 402, or a word in the body.
"""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from shared.core.time import clock
from shared.turns.gateway.dialects import part
from shared.turns.gateway.tokens import Reason, Refusal

LONGEST_RETRY_S = 20.0  # codex and opencode wait in silence for as long as retry-after says
_LONGEST_WAIT_S = 10**8

# The type or the code of an error, in a body or in a stream.
_WORDS: Mapping[str, Reason] = {
    "insufficient_quota": "quota",
    "usage_limit_reached": "quota",
    "billing_error": "quota",
    "billing_hard_limit_reached": "quota",
    "authentication_error": "login_refused",
    "invalid_api_key": "login_refused",
    "permission_error": "login_refused",
    "model_not_found": "model_not_found",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "overloaded_error": "overloaded",
    "api_error": "overloaded",
    "server_error": "overloaded",
}
_STATUSES: Mapping[int, Reason] = {
    401: "login_refused",
    402: "quota",
    403: "login_refused",
    404: "model_not_found",
    429: "rate_limited",
}
_MEANS: Mapping[Reason, str] = {
    "quota": "the plan is used up, or the account has no credit",
    "login_refused": "it does not accept our key or login",
    "model_not_found": "it does not know this model",
    "rate_limited": "too many requests",
    "overloaded": "it is overloaded, or has a fault",
}
_NO_CREDIT = "credit balance is too low"  # Anthropic says so in a 400, without a word of its own


def of_answer(
    upstream: str, status: int, headers: Mapping[str, str], body: Mapping[str, Any], *, now_ms: int
) -> Refusal | None:
    """What an answer with an error status means; None: the error is about this one request, as in most with a 400."""
    error = part(body, "error")
    reason = _reason(status, headers, error)
    if reason is None:
        return None
    return Refusal(reason, f"{upstream} answered {status}: {_MEANS[reason]}", _until(headers, error, now_ms))


def of_event(upstream: str, error: Mapping[str, Any], *, now_ms: int) -> Refusal | None:
    """What an error in the middle of a stream means; None: it is about this one request."""
    reason = _word(error)
    if reason is None:
        return None
    return Refusal(reason, f"{upstream} broke its answer off: {_MEANS[reason]}", _until({}, error, now_ms))


def retry_after_s(headers: Mapping[str, str], *, now_ms: int) -> float | None:
    """The wait that the host asks for, given in seconds, in milliseconds or as a date; None: no sensible one."""
    for name, parse in (("retry-after-ms", lambda text: float(text) / 1000), ("retry-after", float)):
        try:
            return _sensible(parse(headers[name]))
        except (KeyError, ValueError):
            continue
    try:
        at = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return _sensible(max(0.0, at.timestamp() + clock.of_machine(0) / 1000 - now_ms / 1000))


def _reason(status: int, headers: Mapping[str, str], error: Mapping[str, Any]) -> Reason | None:
    word = _word(error)
    if word == "quota" or (status == 429 and headers.get("anthropic-ratelimit-unified-status") == "rejected"):
        return "quota"
    if status >= 500:
        return "overloaded"
    if status == 400:
        return "quota" if _NO_CREDIT in str(error.get("message", "")) else None
    return _STATUSES.get(status)


def _word(error: Mapping[str, Any]) -> Reason | None:
    for name in ("code", "type"):
        found = error.get(name)
        if isinstance(found, str) and found in _WORDS:
            return _WORDS[found]
    return None


def _until(headers: Mapping[str, str], error: Mapping[str, Any], now_ms: int) -> int | None:
    """When another request may succeed: the instant that the plan names, or the end of the wait."""
    for given in (headers.get("anthropic-ratelimit-unified-reset"), error.get("resets_at")):
        try:
            at_s = float(given) + clock.of_machine(0) / 1000  # type: ignore[arg-type]  # None is a TypeError
        except (TypeError, ValueError):
            continue
        if 0 < at_s - now_ms / 1000 < _LONGEST_WAIT_S:
            return round(at_s * 1000)
    waits_s = retry_after_s(headers, now_ms=now_ms)
    return None if waits_s is None else now_ms + round(waits_s * 1000)


def _sensible(waits_s: float) -> float | None:
    return waits_s if 0 <= waits_s < _LONGEST_WAIT_S else None
