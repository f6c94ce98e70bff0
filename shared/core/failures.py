"""The words for a failed attempt, as the row of a message keeps them, and who ended it."""

from collections.abc import Mapping
from typing import Literal

FailureCode = Literal[
    "error", "rate_limited", "process_gone", "unreadable", "crashed", "killed", "not_started",
    "idle_timeout", "tool_timeout", "turn_timeout", "output_limit", "memory_limit",
]  # fmt: skip

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
}
