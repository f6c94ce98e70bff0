"""The columns of a message that turns and mailboxes read."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from shared.core import content
from shared.core.content import MessageContent
from shared.core.errors import RowInvalid

SUSPECT_FROM = 20  # messages.suspicion
LONGEST_DEBOUNCE_MS = 10_000  # from the first line of a burst to its turn


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
    waits_since: int | None
    series_id: str | None
    scheduled_at: int | None
    created_at: int
    spoken: str | None = None
    runs_alone: int | None = None
    suspicion: int | None = None
    while_busy: str | None = None
    script: str = ""
    wake: str | None = None  # None: always

    @property
    def is_gated(self) -> bool:
        """Whether something stands before the agent, as its schedule says: such a message has a turn of its own."""
        return self.series_id is not None and (bool(self.script) or self.wake == "news")

    @property
    def is_suspect(self) -> bool:
        """Whether dispatch went away so often while it ran that its agent's program may be the cause."""
        return (self.suspicion or 0) >= SUSPECT_FROM


COLUMNS = ", ".join(Message._fields)
_CONTENT, _TRIGGER = Message._fields.index("content"), Message._fields.index("trigger")


def message_of(row: Sequence[Any]) -> Message:
    """From the columns of ``COLUMNS``.

    Raises:
        RowInvalid: its content is no JSON object.
    """
    return _message(row, content.decode)


def readable_message_of(row: Sequence[Any]) -> Message:
    """As ``message_of``, for those who show or end the message: its content is empty where it can't be read."""
    return _message(row, content.readable)


def _message(row: Sequence[Any], decode: Callable[[str], MessageContent]) -> Message:
    values = list(row)
    try:
        values[_CONTENT] = decode(values[_CONTENT])
    except RowInvalid as error:
        raise UnreadableMessage(values[0], f"column content of the message: {error}") from None
    values[_TRIGGER] = bool(values[_TRIGGER])
    return Message._make(values)


class UnreadableMessage(RowInvalid):
    """A message that can't be read. *row_id*: which."""

    def __init__(self, row_id: int, reason: str) -> None:
        super().__init__(reason)
        self.row_id = row_id
