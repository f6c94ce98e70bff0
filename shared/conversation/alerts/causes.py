"""The words of rows for what failed, as sentences."""

from collections.abc import Mapping
from typing import Any

from shared.core.failures import FailureCode
from shared.db.queue.responses import rows as responses

_OF_ATTEMPTS: Mapping[FailureCode, str] = {
    "error": "The agent or its provider failed, or gave no answer",
    "rate_limited": "The provider asked for waits, for longer than a day",
    "process_gone": "The process of the turn ended again and again",
    "unreadable": "The row can't be read",
    "crashed": "The agent's program ended with an error",
    "killed": "The agent's program was ended by a signal from outside",
    "not_started": "The agent's program could not be started, or its request to a model could not be recorded",
    "idle_timeout": "The agent's program wrote nothing for too long",
    "tool_timeout": "A tool call took too long",
    "turn_timeout": "The turn took too long",
    "output_limit": "The agent's program wrote too much",
    "memory_limit": "The agent's program took too much memory",
    "disk_limit": "The folders of the session were too large",
    "chain_cost": "The agents' work because of one message has reached its cost limit",
    "interrupted": "The turn was stopped after it had sent something",
    "overloaded": "The model is overloaded",
    "network": "The model can't be reached",
    "malformed": "The model's answer can't be read",
    "session_lost": "The program's own session is gone",
    "session_busy": "The program's own session is in use",
    "tools_unavailable": "The agent's program did not get its tools",
    "runaway": "The agent repeated itself in a loop",
    "context_too_long": "The conversation is too long for the model",
    "auth": "The login is refused, or has expired",
    "quota": "The plan is used up",
    "budget": "The budget is used up",
    "bad_config": "The agent's settings are wrong",
    "not_installed": "The agent's program is missing",
    "model_not_found": "There is no such model",
}
_OF_SENDS: Mapping[responses.FailureCode, str] = {
    "error": "The platform refused them, or could not be reached for too long",
    "rate_limited": "The platform asked for waits for too long",
    "outcome_unknown": "The platform may have got them, and did not confirm it",
    "unreadable": "The row can't be read",
}


def of_attempt(code: str | None) -> str:
    """Why turns over messages failed, or why an agent can't work."""
    return _sentence(_OF_ATTEMPTS, code)


def of_send(code: str | None) -> str:
    """Why answers could not be sent."""
    return _sentence(_OF_SENDS, code)


def _sentence(words: Mapping[Any, str], code: str | None) -> str:
    return f"{words.get(code, 'The cause is not known')}."
