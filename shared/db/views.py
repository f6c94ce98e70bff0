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
    return _shown(
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

DEAD_RESPONSES = """
    SELECT id, channel, platform_id, chat_id, sender, sender_id, message, message_id, agent, last_error, retry_count,
           parts <> '[]', created_at
      FROM responses
     WHERE status = 'dead' AND last_error IS NOT 'deleted by hand' AND id < :before
     ORDER BY id DESC
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


def dead_responses(conn: apsw.Connection, *, before: int, limit: int) -> list[Shown]:
    """The responses that were given up, newest first; *isPartlySent*: some of it has reached the person."""
    found = _shown(
        "id channel platformId chatId sender senderId message messageId agent lastError retryCount isPartlySent "
        "createdAt",
        rows(conn, DEAD_RESPONSES, {"before": before, "limit": limit}),
    )
    return [{**each, "isPartlySent": bool(each["isPartlySent"])} for each in found]


def recent_responses(conn: apsw.Connection, *, limit: int) -> list[Shown]:
    """The newest responses, newest first."""
    return [_response(_RESPONSE_NAMES + " status", row) for row in rows(conn, RECENT, {"limit": limit})]


# -- what agents were told and said

HISTORY = """
    SELECT id, agent_id, role, channel, sender, message_id, content, created_at
      FROM agent_messages
     WHERE agent_id = :agent AND (:channel IS NULL OR channel = :channel)
     ORDER BY id DESC
     LIMIT :limit
"""

HISTORY_AFTER = """
    SELECT id, agent_id, role, channel, sender, message_id, content, created_at
      FROM agent_messages
     WHERE agent_id = :agent AND id > :after AND (:channel IS NULL OR channel = :channel)
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


def history(
    conn: apsw.Connection, *, agent: str | None = None, channel: str | None = None, after: int = 0, limit: int
) -> list[Shown]:
    """The newest lines of one agent's history, or of all, newest first; those after the line *after*: oldest first.

    *channel*: only its lines of the agent's.
    """
    choice = {(False, False): HISTORY_OF_ALL, (False, True): HISTORY_OF_ALL_AFTER, (True, False): HISTORY}
    sql = choice.get((agent is not None, after > 0), HISTORY_AFTER)
    given = {"agent": agent, "channel": channel, "after": after, "limit": limit}
    found = rows(conn, sql, {name: value for name, value in given.items() if f":{name}" in sql})
    return _shown("id agent_id role channel sender message_id content created_at", found)


HISTORY_BEFORE = """
    SELECT id, agent_id, role, channel, sender, message_id, content, created_at
      FROM agent_messages
     WHERE agent_id = :agent AND id < :before
     ORDER BY id DESC
     LIMIT :limit
"""

HISTORY_OF_ALL_BEFORE = """
    SELECT id, agent_id, role, channel, sender, message_id, content, created_at
      FROM agent_messages
     WHERE id < :before
     ORDER BY id DESC
     LIMIT :limit
"""


def history_before(conn: apsw.Connection, *, agent: str | None, before: int, limit: int) -> list[Shown]:
    """The lines of one agent's history, or of all, that come before the line *before*, newest first."""
    given = {"before": before, "limit": limit} | ({} if agent is None else {"agent": agent})
    found = rows(conn, HISTORY_OF_ALL_BEFORE if agent is None else HISTORY_BEFORE, given)
    return _shown("id agent_id role channel sender message_id content created_at", found)


# -- lists for people, newest first: what comes before the row *before*

_CHAT_NAMES = "id channel platformId name isGroup status senderPolicy refusedAt opensFor notBefore createdAt agents"

CHATS = """
    SELECT id, channel, platform_id, name, is_group, status, sender_policy, refused_at, opens_for, not_before,
           created_at, (SELECT json_group_array(agent) FROM wirings WHERE chat_id = chats.id)
      FROM chats
     WHERE id < :before AND (:channel IS NULL OR channel = :channel)
       AND (:platform_id IS NULL OR platform_id = :platform_id)
     ORDER BY id DESC
     LIMIT :limit
"""

CHAT = """
    SELECT id, channel, platform_id, name, is_group, status, sender_policy, refused_at, opens_for, not_before,
           created_at, (SELECT json_group_array(agent) FROM wirings WHERE chat_id = chats.id)
      FROM chats
     WHERE id = :id
"""

USERS = """
    SELECT id, channel, sender_id, name, created_at,
           (SELECT json_group_array(json_object('role', role, 'agent', agent, 'grantedBy', granted_by,
                                                'createdAt', created_at))
              FROM user_roles
             WHERE user_id = users.id),
           (SELECT json_group_array(json_object('agent', agent, 'isRefused', is_refused, 'addedBy', added_by,
                                                'createdAt', created_at))
              FROM members
             WHERE user_id = users.id),
           (SELECT chat_id FROM user_dms WHERE user_id = users.id)
      FROM users
     WHERE id < :before AND (:channel IS NULL OR channel = :channel)
       AND (:sender_id IS NULL OR sender_id = :sender_id)
       AND (:agent IS NULL
            OR EXISTS (SELECT 1 FROM user_roles r WHERE r.user_id = users.id AND (r.agent IS NULL OR r.agent = :agent))
            OR EXISTS (SELECT 1 FROM members m WHERE m.user_id = users.id AND m.agent = :agent))
     ORDER BY id DESC
     LIMIT :limit
"""

_APPROVAL = """
    SELECT a.id, a.approval_id, a.kind, a.title, a.agent, a.chat_id, a.user_id, s.session_id, a.payload, a.options,
           a.status, a.choice, a.decided_by, a.approver, a.expires_at, a.created_at, a.updated_at,
           (SELECT count(*) FROM held h WHERE h.approval_id = a.id)
      FROM approvals a
      LEFT JOIN sessions s ON s.id = a.session_id
"""

APPROVALS = f"""
{_APPROVAL}
     WHERE a.id < :before AND (:status IS NULL OR a.status = :status)
     ORDER BY a.id DESC
     LIMIT :limit
"""

APPROVAL = f"""
{_APPROVAL}
     WHERE a.approval_id = :id
"""

PAIRINGS = """
    SELECT id, pairing_id, grants, agent, iif(status = 'open' AND expires_at <= :now, 'expired', status), used_by,
           expires_at, created_at
      FROM pairings
     WHERE id < :before
     ORDER BY id DESC
     LIMIT :limit
"""

WIRINGS = """
    SELECT w.id, w.chat_id, c.channel, c.platform_id, c.name, w.agent, w.engage_mode, w.engage_pattern, w.sender_scope,
           w.ignored_message_policy, w.session_mode, w.priority, w.created_at
      FROM wirings w
     CROSS JOIN chats c
     WHERE c.id = w.chat_id AND w.id < :before AND (:agent IS NULL OR w.agent = :agent)
     ORDER BY w.id DESC
     LIMIT :limit
"""

WIRINGS_OF_CHAT = """
    SELECT w.id, w.chat_id, c.channel, c.platform_id, c.name, w.agent, w.engage_mode, w.engage_pattern, w.sender_scope,
           w.ignored_message_policy, w.session_mode, w.priority, w.created_at
      FROM chats c
     CROSS JOIN wirings w
     WHERE c.id = :chat AND w.chat_id = c.id AND (:agent IS NULL OR w.agent = :agent)
"""

DESTINATIONS = """
    SELECT agent, name, target_chat, target_agent, created_at
      FROM destinations
     WHERE agent >= ifnull(:agent, '') AND (:agent IS NULL OR agent = :agent)
     ORDER BY agent, name
     LIMIT :limit
"""

DROPPED = """
    SELECT id, channel, platform_id, sender_id, reason, detail, created_at
      FROM dropped
     WHERE id < :before AND (:channel IS NULL OR channel = :channel)
     ORDER BY id DESC
     LIMIT :limit
"""

DROPPED_AFTER = """
    SELECT id, channel, platform_id, sender_id, reason, detail, created_at
      FROM dropped
     WHERE id > :after AND (:channel IS NULL OR channel = :channel)
     ORDER BY id
     LIMIT :limit
"""

DROPPED_BECAUSE = """
    SELECT id, channel, platform_id, sender_id, reason, detail, created_at
      FROM dropped
     WHERE reason = :reason AND id < :before AND (:channel IS NULL OR channel = :channel)
     ORDER BY id DESC
     LIMIT :limit
"""

DROPPED_BECAUSE_AFTER = """
    SELECT id, channel, platform_id, sender_id, reason, detail, created_at
      FROM dropped
     WHERE reason = :reason AND id > :after AND (:channel IS NULL OR channel = :channel)
     ORDER BY id
     LIMIT :limit
"""

EVENTS = """
    SELECT id, type, message_id, response_id, agent, channel, data, created_at
      FROM events
     WHERE id < :before
     ORDER BY id DESC
     LIMIT :limit
"""


def chats(
    conn: apsw.Connection, *, channel: str | None = None, platform_id: str | None = None, before: int, limit: int
) -> list[Shown]:
    """The conversation places, with the agents that answer there."""
    given = {"channel": channel, "platform_id": platform_id, "before": before, "limit": limit}
    return [_chat(row) for row in rows(conn, CHATS, given)]


def chat(conn: apsw.Connection, chat_id: int) -> Shown | None:
    """One conversation place, or None."""
    found = rows(conn, CHAT, {"id": chat_id})
    return _chat(found[0]) if found else None


def _chat(row: tuple[Any, ...]) -> Shown:
    (shown,) = _shown(_CHAT_NAMES, [row])
    return {**shown, "isGroup": bool(shown["isGroup"]), "agents": json.loads(shown["agents"])}


def users(
    conn: apsw.Connection,
    *,
    channel: str | None = None,
    sender_id: str | None = None,
    agent: str | None = None,
    before: int,
    limit: int,
) -> list[Shown]:
    """Who is somebody here, with roles (the highest first) and memberships; with *agent*, who is somebody to it."""
    given = {"channel": channel, "sender_id": sender_id, "agent": agent, "before": before, "limit": limit}
    found = _shown("id channel senderId name createdAt roles members directChat", rows(conn, USERS, given))
    for user in found:
        user["roles"] = sorted(
            json.loads(user["roles"]), key=lambda role: (role["role"] != "owner", role["agent"] or "")
        )
        user["members"] = [{**each, "isRefused": bool(each["isRefused"])} for each in json.loads(user["members"])]
    return found


def user(conn: apsw.Connection, user_id: int) -> Shown | None:
    """One user, or None."""
    found = users(conn, before=min(user_id, NEWEST - 1) + 1, limit=1)
    return found[0] if found and found[0]["id"] == user_id else None


_WIRING_NAMES = (
    "id chatId channel platformId chatName agent engageMode engagePattern senderScope ignoredMessagePolicy sessionMode "
    "priority createdAt"
)


def wirings(conn: apsw.Connection, *, agent: str | None, before: int, limit: int) -> list[Shown]:
    """Which agent answers where, and when, in any chat."""
    return _shown(_WIRING_NAMES, rows(conn, WIRINGS, {"agent": agent, "before": before, "limit": limit}))


def wirings_of_chat(conn: apsw.Connection, chat_id: int, *, agent: str | None = None) -> list[Shown]:
    """Which agents answer in the chat, the most important first; with *agent*, that one alone if it does."""
    found = _shown(_WIRING_NAMES, rows(conn, WIRINGS_OF_CHAT, {"chat": chat_id, "agent": agent}))
    return sorted(found, key=lambda wiring: (-wiring["priority"], wiring["id"]))


def approvals(conn: apsw.Connection, *, status: str | None, before: int, limit: int) -> list[Shown]:
    """What somebody is, or was, asked to decide; *held*: how many messages wait for it."""
    return [_approval(row) for row in rows(conn, APPROVALS, {"status": status, "before": before, "limit": limit})]


def approval(conn: apsw.Connection, approval_id: str) -> Shown | None:
    """One approval, or None."""
    found = rows(conn, APPROVAL, {"id": approval_id})
    return _approval(found[0]) if found else None


_APPROVAL_NAMES = (
    "id approvalId kind title agent chatId userId sessionId payload options status choice decidedBy approver expiresAt "
    "createdAt updatedAt held"
)


def _approval(row: tuple[Any, ...]) -> Shown:
    (shown,) = _shown(_APPROVAL_NAMES, [row])
    return {**shown, "payload": json.loads(shown["payload"]), "options": json.loads(shown["options"])}


def pairings(conn: apsw.Connection, *, before: int, limit: int, now_ms: int) -> list[Shown]:
    """The one-time codes that were made; no code is known."""
    found = rows(conn, PAIRINGS, {"before": before, "limit": limit, "now": now_ms})
    return _shown("id pairingId grants agent status usedBy expiresAt createdAt", found)


def destinations(conn: apsw.Connection, *, agent: str | None, limit: int) -> list[Shown]:
    """Where agents may send, by agent and name."""
    found = rows(conn, DESTINATIONS, {"agent": agent, "limit": limit})
    return _shown("agent name chatId toAgent createdAt", found)


def dropped(
    conn: apsw.Connection,
    *,
    reason: str | None = None,
    channel: str | None = None,
    before: int = NEWEST,
    after: int = 0,
    limit: int,
) -> list[Shown]:
    """What was refused, and why: before a row newest first, or after one oldest first."""
    choice = {
        (False, False): DROPPED,
        (False, True): DROPPED_AFTER,
        (True, False): DROPPED_BECAUSE,
        (True, True): DROPPED_BECAUSE_AFTER,
    }
    sql = choice[reason is not None, after > 0]
    given = {"reason": reason, "channel": channel, "before": before, "after": after, "limit": limit}
    found = rows(conn, sql, {name: value for name, value in given.items() if f":{name}" in sql})
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
