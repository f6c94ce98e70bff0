"""The columns of a message that turns and mailboxes read."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from shared.core import content
from shared.core.content import MessageContent


class Message(NamedTuple):
    """A message as a turn has it; each field is the column of its name."""

    id: int
    message_id: str
    kind: str
    channel: str
    chat_id: int | None
    platform_id: str | None
    thread_id: str | None
    platform_message_id: str | None
    sender: str
    sender_id: str | None
    message: str
    content: MessageContent
    agent: str
    from_agent: str | None
    session_id: int
    conversation_id: str | None
    trigger: bool
    retry_count: int
    series_id: str | None
    scheduled_at: int | None
    created_at: int


COLUMNS = ", ".join(Message._fields)
_CONTENT, _TRIGGER = Message._fields.index("content"), Message._fields.index("trigger")


def message_of(row: Sequence[Any]) -> Message:
    """From the columns of ``COLUMNS``."""
    values = list(row)
    values[_CONTENT] = content.decode(values[_CONTENT])
    values[_TRIGGER] = bool(values[_TRIGGER])
    return Message._make(values)
