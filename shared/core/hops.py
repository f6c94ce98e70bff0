"""Hops: the number of messages between agents that led to a message. A limit ends loops of agents."""

from shared.core.content import MessageContent
from shared.core.errors import WrongState

LIMIT = 12


def count(content: MessageContent) -> int:
    """The hops of the message with this content."""
    return content.get("hops", 0)


def next_count(content: MessageContent | None) -> int:
    """The hops of a message that an agent sends because of the one with this content; None: because of no message.

    Raises:
        WrongState: the limit is reached.
    """
    hops = 0 if content is None else count(content) + 1
    if hops > LIMIT:
        raise WrongState(
            f"agents have written to each other {LIMIT} times because of one message; this message was not sent"
        )
    return hops
