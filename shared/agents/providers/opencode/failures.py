"""What an error of opencode means for the turn, in our words. Its own text is for operators only, never an answer."""

import re
from collections.abc import Mapping
from typing import Any

from shared.agents.base import Failed
from shared.core.failures import FailureCode, of_status
from shared.core.text import redaction

_LONGEST = 300  # characters of its text
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

_BY_NAME: Mapping[str, FailureCode] = {
    "ProviderAuthError": "auth",
    "ContextOverflowError": "context_too_long",
    "MessageOutputLengthError": "output_limit",
    "MessageAbortedError": "interrupted",
    "ProviderModelNotFoundError": "model_not_found",
}
_BY_TEXT: tuple[tuple[str, FailureCode], ...] = (
    ("Session not found", "session_lost"),
    ("Unable to connect", "network"),
    ("ConnectionRefused", "network"),
    ("socket connection was closed", "network"),
    ("Model not found", "model_not_found"),
    ("context length", "context_too_long"),
    ("Configuration is invalid", "bad_config"),
)


def of_error(error: Mapping[str, Any]) -> Failed:
    """The failure that a line of the type ``error`` tells of."""
    data = error.get("data")
    about = data if isinstance(data, Mapping) else {}
    name, text = (
        str(error.get("name") or "error"),
        str(about.get("message") or error.get("message") or "no reason given"),
    )
    status = about.get("statusCode")
    if isinstance(status, int):
        return Failed(_reason(text), retryable=status != 400, code=of_status(status))
    return Failed(_reason(text), code=_BY_NAME.get(name) or of_text(text))


def of_text(text: str) -> FailureCode:
    """The code that a text of opencode tells of; ``error`` where it tells none."""
    return next((code for words, code in _BY_TEXT if words in text), "error")


def plain(text: str) -> str:
    """*text* without the colours of a terminal."""
    return _COLOURS.sub("", text)


def _reason(text: str) -> str:
    return f"opencode: {redaction.redact(plain(text))[:_LONGEST].strip()}"
