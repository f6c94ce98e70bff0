"""What the API shows of messages: the queue, and the story of one."""

from typing import Any, Literal, NotRequired

import apsw
from typing_extensions import TypedDict

from shared.core import content
from shared.core.failures import ENDED_BY, EndedBy, FailureCode
from shared.db.engine.connection import rows
from shared.db.engine.named_rows import named
from shared.db.views import spending
from shared.db.views.spending import ChainUsage, MessageUsage


class AgentQueue(TypedDict):
    """How many messages of one agent are pending and processing."""

    agent: str
    pending: int
    queued: Literal[0]
    processing: int


class OpenMessage(TypedDict):
    """A message, its sender and its agent."""

    id: int
    messageId: str
    channel: str
    sender: str
    message: str
    agent: str


class PendingMessage(OpenMessage):
    """A message that waits for its turn. *processAfter*: not before this instant; *lastError*: of the last attempt."""

    retryCount: int
    lastError: str | None
    processAfter: int | None
    createdAt: int


class ProcessingMessage(OpenMessage):
    """A message that a turn is processing. *processAlive*: the turn's lease has not run out. *duration*: in ms."""

    status: Literal["processing"]
    processAlive: bool
    startedAt: int
    duration: int


class DeadMessageData(TypedDict):
    """The message itself."""

    channel: str
    sender: str
    senderId: str | None
    message: str
    messageId: str
    agent: str


class DeadMessage(TypedDict):
    """A dead message, and why it is dead."""

    id: int
    data: DeadMessageData
    failedReason: str | None
    attemptsMade: int
    timestamp: int


PROCESSING = """
    SELECT id, message_id, channel, sender, message, agent, status, lease > :now, updated_at,
           max(0, :now - updated_at)
      FROM messages INDEXED BY messages_open
     WHERE trigger = 1 AND (status = 'pending' OR status = 'processing') AND status = 'processing'
     ORDER BY id
     LIMIT :limit
"""

# The ids come from the index alone: many messages may be pending, and few are shown.
PENDING = """
    SELECT id, message_id, channel, sender, message, agent, retry_count, last_error, process_after, created_at
      FROM messages
     WHERE id IN (SELECT id
                    FROM messages INDEXED BY messages_open
                   WHERE trigger = 1 AND (status = 'pending' OR status = 'processing') AND status = 'pending'
                     AND (:agent IS NULL OR agent = :agent)
                   ORDER BY id
                   LIMIT :limit)
     ORDER BY id
"""

OPEN_BY_AGENT = """
    SELECT agent, sum(status = 'pending'), 0, sum(status = 'processing')
      FROM messages
     WHERE trigger = 1 AND (status = 'pending' OR status = 'processing')
     GROUP BY agent
"""

DEAD = """
    SELECT channel, sender, sender_id, message, message_id, agent, id, last_error, retry_count, created_at
      FROM messages
     WHERE status = 'dead'
     ORDER BY id DESC
     LIMIT :limit
"""


def open_by_agent(conn: apsw.Connection) -> list[AgentQueue]:
    """Counts of the open messages, for each agent that has any."""
    return named(AgentQueue, rows(conn, OPEN_BY_AGENT))


def pending(conn: apsw.Connection, *, agent: str | None, limit: int) -> list[PendingMessage]:
    """The messages that wait for a turn, of one agent or of all, oldest first."""
    return named(PendingMessage, rows(conn, PENDING, {"agent": agent, "limit": limit}))


def processing(conn: apsw.Connection, *, now_ms: int, limit: int) -> list[ProcessingMessage]:
    """The messages that turns are processing, oldest first."""
    return named(ProcessingMessage, rows(conn, PROCESSING, {"now": now_ms, "limit": limit}), processAlive=bool)


def dead(conn: apsw.Connection, *, limit: int) -> list[DeadMessage]:
    """The dead messages, newest first."""
    found = rows(conn, DEAD, {"limit": limit})
    contents = named(DeadMessageData, [row[:6] for row in found])
    return [
        {"id": id_, "data": data, "failedReason": last_error, "attemptsMade": retry_count, "timestamp": created_at}
        for data, (*_, id_, last_error, retry_count, created_at) in zip(contents, found, strict=True)
    ]


# -- one message


class MessageAnswer(TypedDict):
    """A response to the message, and the state of its delivery."""

    id: int
    message: str
    agent: str | None
    status: Literal["pending", "delivering", "acked", "dead", "paused"]
    retryCount: int
    lastError: str | None
    createdAt: int
    ackedAt: int | None


class MessageEvent(TypedDict):
    """An event of the message or of one of its responses."""

    type: str
    timestamp: int
    responseId: NotRequired[int]
    data: dict[str, Any]


class MessageView(TypedDict):
    """A message with all that its row says."""

    id: int
    messageId: str
    channel: str
    sender: str
    senderId: str | None
    message: str
    agent: str
    fromAgent: str | None
    kind: str
    status: Literal["pending", "processing", "completed", "dead", "paused", "cancelled"]
    retryCount: int
    lastError: str | None
    failure: FailureCode | None
    processAfter: int | None
    recurrence: str | None
    timezone: str | None
    seriesId: str | None
    createdAt: int
    updatedAt: int


class MessageStory(MessageView):
    """A message with its responses, and the events of both, oldest first.

    *endedBy*: who ended the failed attempt. *usage*: what its turns took from models. *chain*: what agents did for
    each other because of it, or because of what began it.
    """

    endedBy: EndedBy | None
    usage: list[MessageUsage]
    chain: ChainUsage | None
    responses: list[MessageAnswer]
    events: list[MessageEvent]


MESSAGE = """
    SELECT id, message_id, channel, sender, sender_id, message, agent, from_agent, kind, status, retry_count,
           last_error, failure, process_after, recurrence, timezone, series_id, created_at, updated_at
      FROM messages
     WHERE id = :row
"""

OPEN = """
    SELECT 1
      FROM messages
     WHERE id = :row AND (status = 'pending' OR status = 'processing' OR status = 'paused')
"""

ANSWERS = """
    SELECT id, message, agent, status, retry_count, last_error, created_at, acked_at
      FROM responses
     WHERE in_reply_to = :row AND status <> 'deleted'
     ORDER BY id
     LIMIT 1000
"""

NOTES = """
    SELECT type, created_at, response_id, data
      FROM events
     WHERE message_id = :id AND type <> 'message_received' AND type <> 'chain_step_start'
       AND type <> 'chain_step_done' AND type <> 'response_ready' AND type <> 'response_acked'
     ORDER BY id
     LIMIT 1000
"""


def is_open(conn: apsw.Connection, row_id: int) -> bool:
    """Whether the message has not ended yet."""
    return bool(rows(conn, OPEN, {"row": row_id}))


def story(conn: apsw.Connection, row_id: int) -> MessageStory | None:
    """One message with its responses and the events of both, oldest first; None if it is pruned.

    The rows tell the events that every message has. The table of events tells failures and changes by hand.
    """
    found = rows(conn, MESSAGE, {"row": row_id})
    if not found:
        return None
    (message,) = named(MessageView, found)
    answers = named(MessageAnswer, rows(conn, ANSWERS, {"row": row_id}))
    events = [_event("message_received", message["createdAt"])]
    for type_, at, response_id, data in rows(conn, NOTES, {"id": message["messageId"]}):
        events.append(_event(type_, at, response_id, content.readable(data)))
    if message["status"] == "completed":
        events.append(_event("chain_step_done", message["updatedAt"]))
    for answer in answers:
        events.append(_event("response_ready", answer["createdAt"], answer["id"]))
        if answer["ackedAt"] is not None:
            events.append(_event("response_acked", answer["ackedAt"], answer["id"]))
    events.sort(key=lambda event: event["timestamp"])
    ended_by = ENDED_BY[message["failure"]] if message["failure"] else None
    used = spending.of_message(conn, row_id)
    chain = spending.of_chain(conn, row_id)
    return {**message, "endedBy": ended_by, "usage": used, "chain": chain, "responses": answers, "events": events}


def _event(type_: str, at_ms: int, response_id: int | None = None, data: dict[str, Any] | None = None) -> MessageEvent:
    event: MessageEvent = {"type": type_, "timestamp": at_ms, "data": data or {}}
    return event if response_id is None else {**event, "responseId": response_id}
