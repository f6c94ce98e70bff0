"""What an error of codex means for the turn, in our words. Its own text is for operators only, never an answer.

Where the gateway refused a request, it knows the reason better: see ``shared/turns/run/refusals.py``.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from shared.agents.base import Failed
from shared.core.failures import FailureCode, of_status
from shared.core.text import redaction

_LONGEST = 300  # characters of its text

# turn.error.codexErrorInfo, of codex app-server generate-json-schema 0.169.0
_BY_INFO: Mapping[str, FailureCode] = {
    "contextWindowExceeded": "context_too_long",
    "sessionBudgetExceeded": "quota",
    "usageLimitExceeded": "quota",
    "rateLimitExceeded": "rate_limited",
    "flexUnavailable": "overloaded",
    "policyCapacityUnavailable": "overloaded",
    "serverOverloaded": "overloaded",
    "internalServerError": "overloaded",
    "modelNotFound": "model_not_found",
    "unauthorized": "auth",
    "tooManyDenials": "runaway",
    "httpConnectionFailed": "network",
    "responseStreamConnectionFailed": "network",
    "responseStreamDisconnected": "malformed",
    "responseTooManyFailedAttempts": "overloaded",
}
# What it says where it gives no word, and what codex exec says. The first that is in the text counts.
_BY_TEXT: tuple[tuple[str, FailureCode], ...] = (
    ("no rollout found", "session_lost"),
    ("invalid session id", "session_lost"),
    ("invalid thread id", "session_lost"),
    ("thread not found", "session_lost"),
    ("already has an active writer", "session_busy"),
    ("required MCP servers failed", "tools_unavailable"),
    ("Quota exceeded", "quota"),
    ("usage limit", "quota"),
    ("context window", "context_too_long"),
    ("Connection refused", "network"),
    ("error sending request", "network"),
    ("stream disconnected", "malformed"),
    ("experiencing high demand", "overloaded"),
    ("Error loading config", "bad_config"),
)
_STATUS = re.compile(r"(?:unexpected status|last status:) (\d{3})")
_WRONG_REQUEST = ("badRequest", "cyberPolicy", "misalignmentPolicyViolation", "inferenceHookDenied")


def of_turn(error: Mapping[str, Any] | None, until_ms: int | None = None) -> Failed:
    """The failure of a turn that codex ended with *error*; *until_ms*: when a used-up plan begins anew."""
    found = error or {}
    text, info = str(found.get("message") or "no reason given"), found.get("codexErrorInfo")
    word, status = _word(info)
    code = _of_word(word, status, text)
    reason = f"codex: {_short(text)}"
    is_wrong = word in _WRONG_REQUEST or status == 400 or _is_refusal(text)
    return Failed(reason, retryable=not is_wrong, code=code, until_ms=until_ms if code == "quota" else None)


def of_text(text: str) -> Failed:
    """The failure that a text of codex tells of: an error of the protocol, or of ``codex exec``."""
    return Failed(f"codex: {_short(text)}", retryable=not _is_refusal(text), code=_of_text(text))


def of_ending(failed: Failed) -> Failed:
    """A failure of the program's run; where it ended by itself, made more exact by what it said at its end."""
    code = _of_text(failed.reason) if failed.code == "crashed" else failed.code
    return failed if code == "error" else replace(failed, code=code)


def _is_refusal(text: str) -> bool:
    """Whether the text is the body of a 400, as codex shows it."""
    return text.startswith('{"error"')


def _word(info: object) -> tuple[str, int | None]:
    """The word and, where it is about a request, the status of HTTP."""
    if isinstance(info, str):
        return info, None
    if isinstance(info, Mapping) and info:
        word, about = next(iter(info.items()))
        status = about.get("httpStatusCode") if isinstance(about, Mapping) else None
        return str(word), status if isinstance(status, int) else None
    return "other", None


def _of_word(word: str, status: int | None, text: str) -> FailureCode:
    if status is not None:
        return of_status(status, _BY_INFO.get(word, "error"))
    known = _BY_INFO.get(word)
    return known if known is not None else _of_text(text)


def _of_text(text: str) -> FailureCode:
    status = _STATUS.search(text)
    if status is not None:
        return of_status(int(status[1]))
    return next((code for words, code in _BY_TEXT if words in text), "error")


def _short(text: str) -> str:
    return redaction.redact(text)[:_LONGEST].strip()
