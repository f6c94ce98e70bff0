"""Hops: how many messages from agent to agent led to a message. Agents that wake each other stop at a limit."""

from shared.core.content import MessageContent
from shared.core.errors import WrongState

LIMIT = 12


def count(content: MessageContent) -> int:
    """How many led to the message with this content."""
    return content.get("hops", 0)


def next_count(content: MessageContent | None) -> int:
    """How many lead to what is said because of the message with this content; None: nothing led to it.

    Raises:
        WrongState: too many.
    """
    hops = 0 if content is None else count(content) + 1
    if hops > LIMIT:
        raise WrongState(
            f"agents have written to each other {LIMIT} times because of one message: nothing more is sent"
        )
    return hops
