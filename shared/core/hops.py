"""Hops and origin of a message between agents: how many messages led to it, and which one began the chain."""

from shared.core.content import MessageContent

LIMIT = 9  # of hops; see ``queue.chains``


def count(content: MessageContent) -> int:
    """The hops of the message with this content."""
    return content.get("hops", 0)


def origin(content: MessageContent, message_id: str) -> str:
    """What began the chain of the message: a message, by its id, or a line of a room, which each member got."""
    if "origin" in content:
        return content["origin"]
    return f"line_{content['line']}" if "line" in content else message_id
