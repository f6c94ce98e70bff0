"""What the API shows: reads that no verb needs, each answered by an index or bounded by its *limit*."""

import json
from typing import Any

import apsw

from shared.db.connection import rows, scalar

Shown = Any  # a JSON object; its keys are what the endpoint that shows it says


NEWEST = 2**63 - 1


def _shown(names: str, found: list[tuple[Any, ...]]) -> list[Shown]:
    keys = names.split()
    return [dict(zip(keys, row, strict=True)) for row in found]


# -- the queue

PROCESSING = """
    SELECT id, message_id, channel, sender, message, agent, updated_at, lease
      FROM messages INDEXED BY messages_open
     WHERE trigger = 1 AND (status = 'pending' OR status = 'processing') AND status = 'processing'
     ORDER BY id
     LIMIT :limit
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


def open_by_agent(conn: apsw.Connection) -> list[Shown]:
    """How much waits for each agent that has something open, and how much of it runs."""
    return [
        {"agent": agent, "pending": pending, "queued": 0, "processing": processing}
        for agent, pending, processing in rows(conn, OPEN_BY_AGENT)
    ]


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


# -- responses

_RESPONSE_NAMES = "id channel sender senderId message originalMessage timestamp messageId agent files metadata"

PENDING_OF_CHANNEL = """
    SELECT id, channel, sender, sender_id, message, original_message, created_at, message_id, agent, files, metadata
      FROM responses
     WHERE channel = :channel AND chat_id IS NULL AND status = 'pending'
       AND (deliver_after IS NULL OR deliver_after <= :now)
     ORDER BY id
     LIMIT :limit
"""

PENDING_OF_NO_ADAPTER = """
    SELECT id, channel, sender, sender_id, message, original_message, created_at, message_id, agent, files, metadata
      FROM responses
     WHERE channel = :channel AND chat_id IS NULL AND status = 'pending'
       AND (deliver_after IS NULL OR deliver_after <= :now)
     UNION ALL
    SELECT id, channel, sender, sender_id, message, original_message, created_at, message_id, agent, files, metadata
      FROM responses
     WHERE channel = :channel AND chat_id > 0 AND status = 'pending'
       AND (deliver_after IS NULL OR deliver_after <= :now)
     ORDER BY id
     LIMIT :limit
"""

RECENT = """
    SELECT id, channel, sender, sender_id, message, original_message, created_at, message_id, agent, files, metadata,
           status
      FROM responses
     ORDER BY id DESC
     LIMIT :limit
"""


def _response(names: str, row: tuple[Any, ...]) -> Shown:
    shown = dict(zip(names.split(), row, strict=True))
    for name in ("files", "metadata"):
        shown[name] = json.loads(shown[name])
        if not shown[name]:
            del shown[name]
    return shown


def responses_to_fetch(
    conn: apsw.Connection, channel: str, *, has_adapter: bool, now_ms: int, limit: int
) -> list[Shown]:
    """The responses of *channel* that wait for a program to fetch them, oldest first.

    Where the channel has an adapter of ours, those are the responses without a chat of ours; else all.
    """
    sql = PENDING_OF_CHANNEL if has_adapter else PENDING_OF_NO_ADAPTER
    found = rows(conn, sql, {"channel": channel, "now": now_ms, "limit": limit})
    return [_response(_RESPONSE_NAMES, row) for row in found]


def recent_responses(conn: apsw.Connection, *, limit: int) -> list[Shown]:
    """The newest responses, newest first."""
    return [_response(_RESPONSE_NAMES + " status", row) for row in rows(conn, RECENT, {"limit": limit})]


# -- what agents were told and said

HISTORY = """
    SELECT id, agent_id, role, channel, sender, message_id, content, created_at
      FROM agent_messages
     WHERE agent_id = :agent
     ORDER BY id DESC
     LIMIT :limit
"""

HISTORY_AFTER = """
    SELECT id, agent_id, role, channel, sender, message_id, content, created_at
      FROM agent_messages
     WHERE agent_id = :agent AND id > :after
     ORDER BY id
     LIMIT :limit
"""

HISTORY_OF_ALL = """
    SELECT id, agent_id, role, channel, sender, message_id, content, created_at
      FROM agent_messages
     ORDER BY id DESC
     LIMIT :limit
"""

HISTORY_OF_ALL_AFTER = """
    SELECT id, agent_id, role, channel, sender, message_id, content, created_at
      FROM agent_messages
     WHERE id > :after
     ORDER BY id
     LIMIT :limit
"""


def history(conn: apsw.Connection, *, agent: str | None = None, after: int = 0, limit: int) -> list[Shown]:
    """The newest lines of one agent's history, or of all, newest first; those after the line *after*: oldest first."""
    choice = {(False, False): HISTORY_OF_ALL, (False, True): HISTORY_OF_ALL_AFTER, (True, False): HISTORY}
    sql = choice.get((agent is not None, after > 0), HISTORY_AFTER)
    given = {"agent": agent, "after": after, "limit": limit}
    found = rows(conn, sql, {name: value for name, value in given.items() if f":{name}" in sql})
    return _shown("id agent_id role channel sender message_id content created_at", found)


# -- lists for people, newest first: what comes before the row *before*

CHATS = """
    SELECT id, channel, platform_id, name, is_group, status, not_before, created_at,
           (SELECT json_group_array(agent) FROM wirings WHERE chat_id = chats.id)
      FROM chats
     WHERE id < :before
     ORDER BY id DESC
     LIMIT :limit
"""

DROPPED = """
    SELECT id, channel, platform_id, sender_id, reason, detail, created_at
      FROM dropped
     WHERE id < :before
     ORDER BY id DESC
     LIMIT :limit
"""

EVENTS = """
    SELECT id, type, message_id, response_id, agent, channel, data, created_at
      FROM events
     WHERE id < :before
     ORDER BY id DESC
     LIMIT :limit
"""


def chats(conn: apsw.Connection, *, before: int, limit: int) -> list[Shown]:
    """The conversation places, with the agents that answer there."""
    found = rows(conn, CHATS, {"before": before, "limit": limit})
    shown = _shown("id channel platformId name isGroup status notBefore createdAt agents", found)
    return [{**chat, "isGroup": bool(chat["isGroup"]), "agents": json.loads(chat["agents"])} for chat in shown]


def dropped(conn: apsw.Connection, *, before: int, limit: int) -> list[Shown]:
    """What was refused, and why."""
    found = rows(conn, DROPPED, {"before": before, "limit": limit})
    return _shown("id channel platformId senderId reason detail createdAt", found)


def events(conn: apsw.Connection, *, before: int, limit: int) -> list[Shown]:
    """What happened."""
    found = rows(conn, EVENTS, {"before": before, "limit": limit})
    shown = _shown("id type messageId responseId agent channel data createdAt", found)
    return [{**event, "data": json.loads(event["data"])} for event in shown]


WIRED = """
    SELECT EXISTS (SELECT 1
                     FROM chats c
                     JOIN wirings w ON w.chat_id = c.id
                    WHERE c.channel = :channel)
"""


def has_wired_chat(conn: apsw.Connection, channel: str) -> bool:
    """Whether an agent answers anywhere on the channel."""
    return bool(scalar(conn, WIRED, {"channel": channel}))


# -- rooms

ROOM = """
    SELECT id, team_id, from_agent, message, created_at
      FROM chat_messages
     WHERE team_id = :team
     ORDER BY id DESC
     LIMIT :limit
"""

ROOM_AFTER = """
    SELECT id, team_id, from_agent, message, created_at
      FROM chat_messages
     WHERE team_id = :team AND id > :after
     ORDER BY id
     LIMIT :limit
"""


def room(conn: apsw.Connection, team: str, *, after: int = 0, limit: int) -> list[Shown]:
    """The newest of a team's room, newest first; what came after the line *after*: oldest first."""
    if after:
        found = rows(conn, ROOM_AFTER, {"team": team, "after": after, "limit": limit})
    else:
        found = rows(conn, ROOM, {"team": team, "limit": limit})
    return _shown("id team_id from_agent message created_at", found)


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
    (message,) = _shown(
        "id messageId channel sender senderId message agent fromAgent kind status retryCount lastError "
        "processAfter recurrence timezone seriesId createdAt updatedAt",
        found,
    )
    names = "id message agent status retryCount lastError createdAt ackedAt"
    answers = _shown(names, rows(conn, ANSWERS, {"row": row_id}))
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
