"""What the API shows of messages: the queue, and the story of one."""

import json

import apsw

from shared.db.engine.connection import rows
from shared.db.engine.named_rows import Shown, named

PROCESSING = """
    SELECT id, message_id, channel, sender, message, agent, updated_at, lease
      FROM messages INDEXED BY messages_open
     WHERE trigger = 1 AND (status = 'pending' OR status = 'processing') AND status = 'processing'
     ORDER BY id
     LIMIT :limit
"""

# The ids come from the index alone: much may wait, and few are shown.
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
    SELECT agent, sum(status = 'pending'), sum(status = 'processing')
      FROM messages
     WHERE trigger = 1 AND (status = 'pending' OR status = 'processing')
     GROUP BY agent
"""

DEAD = """
    SELECT id, channel, sender, sender_id, message, message_id, agent, last_error, retry_count, created_at
      FROM messages
     WHERE status = 'dead'
     ORDER BY id DESC
     LIMIT :limit
"""

DEAD_AFTER = """
    SELECT id, message_id
      FROM messages
     WHERE status = 'dead' AND id > :after
     ORDER BY id
     LIMIT :limit
"""


def open_by_agent(conn: apsw.Connection) -> list[Shown]:
    """How much waits for each agent that has something open, and how much of it runs."""
    return [
        {"agent": agent, "pending": pending, "queued": 0, "processing": processing}
        for agent, pending, processing in rows(conn, OPEN_BY_AGENT)
    ]


def pending(conn: apsw.Connection, *, agent: str | None, limit: int) -> list[Shown]:
    """The messages that wait for a turn, of one agent or of all, oldest first."""
    return named(
        "id messageId channel sender message agent retryCount lastError processAfter createdAt",
        rows(conn, PENDING, {"agent": agent, "limit": limit}),
    )


def processing(conn: apsw.Connection, *, now_ms: int, limit: int) -> list[Shown]:
    """The messages that turns hold, oldest first; alive is a turn whose lease runs."""
    found = rows(conn, PROCESSING, {"limit": limit})
    return [
        {
            "id": id_,
            "messageId": message_id,
            "channel": channel,
            "sender": sender,
            "message": message,
            "agent": agent,
            "status": "processing",
            "processAlive": lease > now_ms,
            "startedAt": started_at,
            "duration": max(0, now_ms - started_at),
        }
        for id_, message_id, channel, sender, message, agent, started_at, lease in found
    ]


def is_processing(conn: apsw.Connection, row_id: int) -> bool:
    """Whether a turn has the message."""
    return bool(rows(conn, "SELECT 1 FROM messages WHERE id = :row AND status = 'processing'", {"row": row_id}))


def dead(conn: apsw.Connection, *, limit: int) -> list[Shown]:
    """The messages that were given up, the last one first."""
    return [
        {
            "id": id_,
            "data": dict(zip(("channel", "sender", "senderId", "message", "messageId", "agent"), data, strict=True)),
            "failedReason": last_error,
            "attemptsMade": retry_count,
            "timestamp": created_at,
        }
        for id_, *data, last_error, retry_count, created_at in rows(conn, DEAD, {"limit": limit})
    ]


def dead_after(conn: apsw.Connection, after: int, *, limit: int) -> list[tuple[int, str]]:
    """Row and id of the messages that were given up, the oldest beyond the row *after* first."""
    return rows(conn, DEAD_AFTER, {"after": after, "limit": limit})


# -- one message

MESSAGE = """
    SELECT id, message_id, channel, sender, sender_id, message, agent, from_agent, kind, status, retry_count,
           last_error, process_after, recurrence, timezone, series_id, created_at, updated_at
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
     WHERE in_reply_to = :row
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
    """Whether something may still become of the message."""
    return bool(rows(conn, OPEN, {"row": row_id}))


def story(conn: apsw.Connection, row_id: int) -> Shown | None:
    """One message with its answers and what happened to both, oldest first; None if it is gone.

    What always happens stands on the rows; what went wrong, and what was done by hand, is looked up among the events.
    """
    found = rows(conn, MESSAGE, {"row": row_id})
    if not found:
        return None
    (message,) = named(
        "id messageId channel sender senderId message agent fromAgent kind status retryCount lastError "
        "processAfter recurrence timezone seriesId createdAt updatedAt",
        found,
    )
    names = "id message agent status retryCount lastError createdAt ackedAt"
    answers = named(names, rows(conn, ANSWERS, {"row": row_id}))
    happened = [_happened("message_received", message["createdAt"])]
    for type_, at, response_id, data in rows(conn, NOTES, {"id": message["messageId"]}):
        happened.append(_happened(type_, at, response_id, json.loads(data)))
    if message["status"] == "completed":
        happened.append(_happened("chain_step_done", message["updatedAt"]))
    for answer in answers:
        happened.append(_happened("response_ready", answer["createdAt"], answer["id"]))
        if answer["ackedAt"] is not None:
            happened.append(_happened("response_acked", answer["ackedAt"], answer["id"]))
    happened.sort(key=lambda event: event["timestamp"])
    return {**message, "responses": answers, "events": happened}


def _happened(type_: str, at_ms: int, response_id: int | None = None, data: Shown | None = None) -> Shown:
    shown: Shown = {"type": type_, "timestamp": at_ms, "data": data or {}}
    return shown if response_id is None else {**shown, "responseId": response_id}
