"""What a turn, or a mailbox, needs of a row of ``messages``."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from shared.core import content
from shared.core.content import MessageContent

# In the order of the fields of Message.
COLUMNS = """
           id, message_id, kind, channel, chat_id, platform_id, thread_id, platform_message_id, sender, sender_id,
           message, content, agent, from_agent, session_id, conversation_id, trigger, retry_count, series_id,
           scheduled_at, created_at"""


class Message(NamedTuple):
    """A message as a turn has it."""

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


WIDTH = len(Message._fields)


def message_of(row: Sequence[Any]) -> Message:
    """From a row that begins with the columns of ``COLUMNS``."""
    values = list(row[:WIDTH])
    values[11] = content.decode(values[11])
    values[16] = bool(values[16])
    return Message._make(values)
