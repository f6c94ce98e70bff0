"""What an error of claude means for the turn, in our words. Its own text is for operators only, never an answer."""

from shared.agents.base import Failed
from shared.agents.providers.claude.stream import ClaudeLimit, ClaudeResult
from shared.core.failures import FailureCode, of_status
from shared.core.text import redaction

_LONGEST = 300  # characters of its text

# What it says where the host gave no status. The first that is in the text counts.
_BY_TEXT: tuple[tuple[str, FailureCode], ...] = (
    ("No conversation found with session ID", "session_lost"),
    ("--resume requires a valid session ID", "session_lost"),
    ("Not logged in", "auth"),
    ("Prompt is too long", "context_too_long"),
    ("empty or malformed response", "malformed"),
    ("Connection", "network"),
    ("Request timed out", "network"),
    ("Can't reach", "network"),
)
_NOT_AGAIN: frozenset[FailureCode] = frozenset({"runaway", "context_too_long"})


def failed(result: ClaudeResult, limit: ClaudeLimit | None) -> Failed:
    """The failure that *result* tells of; *limit*: what it said of the plan before."""
    reason = f"claude: {redaction.redact(result.text)[:_LONGEST].strip() or result.subtype}"
    if limit is not None and result.status in (429, None):
        return Failed(f"the plan is used up; {reason}", code="quota", until_ms=limit.until_ms)
    code = code_of(result)
    return Failed(reason, retryable=code not in _NOT_AGAIN and result.status != 400, code=code)


def code_of(result: ClaudeResult) -> FailureCode:
    """The word for the row."""
    if result.subtype == "error_max_turns":
        return "runaway"
    by_text = next((code for text, code in _BY_TEXT if text in result.text), None)
    if result.status is None or (result.status == 400 and by_text == "context_too_long"):
        return by_text or "error"
    return of_status(result.status)


def of_last_words(reason: str) -> FailureCode | None:
    """The word for a program that ended with an error of its own before any line; None: it says nothing known."""
    return next((code for text, code in _BY_TEXT if text in reason), None)
