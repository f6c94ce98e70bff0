"""The words for a failed attempt, as the row of a message keeps them, who ended it, and what follows it."""

from collections.abc import Mapping
from typing import Literal

FailureCode = Literal[
    "error", "rate_limited", "process_gone", "unreadable", "crashed", "killed", "not_started",
    "idle_timeout", "tool_timeout", "turn_timeout", "output_limit", "memory_limit", "disk_limit",
    "chain_cost",
    "interrupted", "overloaded", "network", "malformed", "session_lost", "session_busy", "tools_unavailable",
    "runaway", "context_too_long", "auth", "quota", "budget", "bad_config", "not_installed", "model_not_found",
]  # fmt: skip

_BY_STATUS: Mapping[int, FailureCode] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "model_not_found",
    413: "context_too_long",
    429: "rate_limited",
}


def of_status(status: int, otherwise: FailureCode = "error") -> FailureCode:
    """The word for an HTTP status with which a host of models refused, as programs pass it on."""
    return "overloaded" if status >= 500 else _BY_STATUS.get(status, otherwise)


EndedBy = Literal["agent", "postroom", "system"]
"""Who ended an attempt: the agent (its program or model), Postroom (a limit), the system (a signal from elsewhere)."""

ENDED_BY: Mapping[FailureCode, EndedBy] = {
    "error": "agent",
    "rate_limited": "agent",
    "crashed": "agent",
    "process_gone": "system",
    "killed": "system",
    "unreadable": "postroom",
    "not_started": "postroom",
    "idle_timeout": "postroom",
    "tool_timeout": "postroom",
    "turn_timeout": "postroom",
    "output_limit": "postroom",
    "memory_limit": "postroom",
    "disk_limit": "postroom",
    "chain_cost": "postroom",
    "interrupted": "postroom",
    "overloaded": "agent",
    "network": "system",
    "malformed": "agent",
    "session_lost": "agent",
    "session_busy": "agent",
    "tools_unavailable": "postroom",
    "runaway": "postroom",
    "context_too_long": "agent",
    "auth": "agent",
    "quota": "agent",
    "budget": "postroom",
    "bad_config": "postroom",
    "not_installed": "postroom",
    "model_not_found": "agent",
}

PAUSING: frozenset[FailureCode] = frozenset(
    {"auth", "quota", "budget", "bad_config", "not_installed", "model_not_found"}
)
"""The agent can't work at all until an instant, or until somebody mends it. It is paused, and its messages wait."""

_FINAL: frozenset[FailureCode] = frozenset({"output_limit", "disk_limit", "chain_cost", "runaway", "context_too_long"})
"""The same message would fail in the same way again."""

Next = Literal["retry", "wait", "keep", "end", "go_on"]
"""What becomes of a message: another attempt after a backoff; one after the wait that was asked for; one when its agent
is no longer paused; its end; or one more run that goes on with what was said."""


def follows(
    code: FailureCode,
    *,
    retryable: bool = True,
    has_wait: bool = False,
    has_spoken: bool = False,
    may_go_on: bool = False,
) -> Next:
    """What follows a failed attempt. The number of attempts, and how long a wait is, are the caller's.

    Args:
        retryable: whether the provider thinks that another attempt may help.
        has_wait: a wait was asked for, or an instant was named. Neither costs an attempt.
        has_spoken: the turn said something for good, so a second run would say it twice.
        may_go_on: the agent's row lets such a turn go on, and it did not do so before.
    """
    if has_spoken:
        return "go_on" if may_go_on else "end"
    if code in PAUSING:
        return "keep"
    if has_wait:
        return "wait"
    return "retry" if retryable and code not in _FINAL else "end"
