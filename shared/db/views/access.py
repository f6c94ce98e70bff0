"""What the API shows of who may talk to whom: lists for people, newest first, before the row *before*."""

import json
from typing import Any

import apsw

from shared.db.engine.connection import rows, scalar
from shared.db.engine.named_rows import NEWEST, Shown, named

# -- chats, and who answers there

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
    (shown,) = named(_CHAT_NAMES, [row])
    return {**shown, "isGroup": bool(shown["isGroup"]), "agents": json.loads(shown["agents"])}


WIRED = """
    SELECT EXISTS (SELECT 1
                     FROM chats c
                     JOIN wirings w ON w.chat_id = c.id
                    WHERE c.channel = :channel)
"""


def has_wired_chat(conn: apsw.Connection, channel: str) -> bool:
    """Whether an agent answers anywhere on the channel."""
    return bool(scalar(conn, WIRED, {"channel": channel}))


_WIRING_NAMES = (
    "id chatId channel platformId chatName agent engageMode engagePattern senderScope ignoredMessagePolicy sessionMode "
    "priority createdAt"
)

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


def wirings(conn: apsw.Connection, *, agent: str | None, before: int, limit: int) -> list[Shown]:
    """Which agent answers where, and when, in any chat."""
    return named(_WIRING_NAMES, rows(conn, WIRINGS, {"agent": agent, "before": before, "limit": limit}))


def wirings_of_chat(conn: apsw.Connection, chat_id: int, *, agent: str | None = None) -> list[Shown]:
    """Which agents answer in the chat, the most important first; with *agent*, that one alone if it does."""
    found = named(_WIRING_NAMES, rows(conn, WIRINGS_OF_CHAT, {"chat": chat_id, "agent": agent}))
    return sorted(found, key=lambda wiring: (-wiring["priority"], wiring["id"]))


DESTINATIONS = """
    SELECT agent, name, target_chat, target_agent, created_at
      FROM destinations
     WHERE agent >= ifnull(:agent, '') AND (:agent IS NULL OR agent = :agent)
     ORDER BY agent, name
     LIMIT :limit
"""


def destinations(conn: apsw.Connection, *, agent: str | None, limit: int) -> list[Shown]:
    """Where agents may send, by agent and name."""
    found = rows(conn, DESTINATIONS, {"agent": agent, "limit": limit})
    return named("agent name chatId toAgent createdAt", found)


# -- people

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
    found = named("id channel senderId name createdAt roles members directChat", rows(conn, USERS, given))
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


# -- what they are asked to decide

_APPROVAL_NAMES = (
    "id approvalId kind title agent chatId userId sessionId payload options status choice decidedBy approver expiresAt "
    "createdAt updatedAt held"
)

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


def approvals(conn: apsw.Connection, *, status: str | None, before: int, limit: int) -> list[Shown]:
    """What somebody is, or was, asked to decide; *held*: how many messages wait for it."""
    return [_approval(row) for row in rows(conn, APPROVALS, {"status": status, "before": before, "limit": limit})]


def approval(conn: apsw.Connection, approval_id: str) -> Shown | None:
    """One approval, or None."""
    found = rows(conn, APPROVAL, {"id": approval_id})
    return _approval(found[0]) if found else None


def _approval(row: tuple[Any, ...]) -> Shown:
    (shown,) = named(_APPROVAL_NAMES, [row])
    return {**shown, "payload": json.loads(shown["payload"]), "options": json.loads(shown["options"])}


PAIRINGS = """
    SELECT id, pairing_id, grants, agent, iif(status = 'open' AND expires_at <= :now, 'expired', status), used_by,
           expires_at, created_at
      FROM pairings
     WHERE id < :before
     ORDER BY id DESC
     LIMIT :limit
"""


def pairings(conn: apsw.Connection, *, before: int, limit: int, now_ms: int) -> list[Shown]:
    """The one-time codes that were made; no code is known."""
    found = rows(conn, PAIRINGS, {"before": before, "limit": limit, "now": now_ms})
    return named("id pairingId grants agent status usedBy expiresAt createdAt", found)
