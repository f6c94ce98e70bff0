"""Hops: how many messages from agent to agent led to a message. Agents that wake each other stop at a limit."""

from shared.core.content import MessageContent
from shared.core.errors import WrongState

LIMIT = 12


def of(content: MessageContent) -> int:
    """How many led to the message with this content."""
    return content.get("hops", 0)


def after(content: MessageContent | None) -> int:
    """How many lead to what is said because of the message with this content; None: nothing led to it.

    Raises:
        WrongState: too many.
    """
    count = 0 if content is None else of(content) + 1
    if count > LIMIT:
        raise WrongState(
            f"agents have written to each other {LIMIT} times because of one message: nothing more is sent"
        )
    return count
