"""What the API shows of access: chats, wirings, destinations, users, approvals and pairings.

Lists are newest first; *before* is the row at which the previous page ended.
"""

import json
from typing import Any, Literal

import apsw
from typing_extensions import TypedDict

from shared.core import content
from shared.core.policy import SenderPolicy
from shared.core.row_settings import camel
from shared.db.access import approvals as approval_rows
from shared.db.access.pairings import Grants
from shared.db.access.user_roles import RoleName
from shared.db.engine.columns import listed
from shared.db.engine.connection import rows, scalar
from shared.db.engine.named_rows import NEWEST, named, shows_settings_of
from shared.db.roster.wirings import SETTINGS, Wiring

# -- chats, and the agents that answer there


class ChatView(TypedDict):
    """One conversation place on one platform, and the agents that answer there.

    *senderPolicy*: what happens to messages of unknown senders. *refusedAt*: since when no approver is asked whether an
    agent should answer there. *opensFor*: the user whose direct chat this will be after the first message to it.
    """

    id: int
    channel: str
    platformId: str
    name: str | None
    isGroup: bool
    status: Literal["active", "inactive"]
    senderPolicy: SenderPolicy
    refusedAt: int | None
    opensFor: str | None
    notBefore: int | None
    createdAt: int
    agents: list[str]


_CHAT = """
    SELECT id, channel, platform_id, name, is_group, status, sender_policy, refused_at, opens_for, not_before,
           created_at, (SELECT json_group_array(agent) FROM wirings WHERE chat_id = chats.id)
      FROM chats
"""

CHATS = f"""
{_CHAT}
     WHERE id < :before AND (:channel IS NULL OR channel = :channel)
       AND (:platform_id IS NULL OR platform_id = :platform_id)
     ORDER BY id DESC
     LIMIT :limit
"""

CHAT = f"""
{_CHAT}
     WHERE id = :id
"""


def chats(
    conn: apsw.Connection, *, channel: str | None = None, platform_id: str | None = None, before: int, limit: int
) -> list[ChatView]:
    """The conversation places, with the agents that answer there."""
    return _chats(rows(conn, CHATS, {"channel": channel, "platform_id": platform_id, "before": before, "limit": limit}))


def chat(conn: apsw.Connection, chat_id: int) -> ChatView | None:
    """One conversation place, or None."""
    return next(iter(_chats(rows(conn, CHAT, {"id": chat_id}))), None)


def _chats(found: list[tuple[Any, ...]]) -> list[ChatView]:
    return named(ChatView, found, isGroup=bool, agents=json.loads)


WIRED = """
    SELECT EXISTS (SELECT 1
                     FROM chats c
                     JOIN wirings w ON w.chat_id = c.id
                    WHERE c.channel = :channel)
"""


def has_wired_chat(conn: apsw.Connection, channel: str) -> bool:
    """Whether an agent answers anywhere on the channel."""
    return bool(scalar(conn, WIRED, {"channel": channel}))


@shows_settings_of(Wiring, camel)
class WiringView(TypedDict):
    """An agent that answers in a chat.

    *engageMode*: when it answers; *senderScope*: to whom; *ignoredMessagePolicy*: what happens to the other messages;
    *sessionMode*: the context in which it continues. The highest *priority* comes first.
    """

    id: int
    chatId: int
    channel: str
    platformId: str
    chatName: str | None
    agent: str
    createdAt: int


_WIRING = f"""
    SELECT w.id, w.chat_id, c.channel, c.platform_id, c.name, w.agent, w.created_at, {listed(SETTINGS, "w.")}
"""

WIRINGS = f"""
{_WIRING}
      FROM wirings w
     CROSS JOIN chats c
     WHERE c.id = w.chat_id AND w.id < :before AND (:agent IS NULL OR w.agent = :agent)
     ORDER BY w.id DESC
     LIMIT :limit
"""

WIRINGS_OF_CHAT = f"""
{_WIRING}
      FROM chats c
     CROSS JOIN wirings w
     WHERE c.id = :chat AND w.chat_id = c.id AND (:agent IS NULL OR w.agent = :agent)
"""


def wirings(conn: apsw.Connection, *, agent: str | None, before: int, limit: int) -> list[WiringView]:
    """The wirings of all chats."""
    return named(WiringView, rows(conn, WIRINGS, {"agent": agent, "before": before, "limit": limit}))


def wirings_of_chat(conn: apsw.Connection, chat_id: int, *, agent: str | None = None) -> list[WiringView]:
    """The wirings of the chat, the highest priority first; with *agent*, only its own."""
    found: list[Any] = named(WiringView, rows(conn, WIRINGS_OF_CHAT, {"chat": chat_id, "agent": agent}))
    return sorted(found, key=lambda wiring: (-wiring["priority"], wiring["id"]))


class DestinationView(TypedDict):
    """A name that the agent uses for a chat or another agent. It may send to its destinations only."""

    agent: str
    name: str
    chatId: int | None
    toAgent: str | None
    createdAt: int


DESTINATIONS = """
    SELECT agent, name, target_chat, target_agent, created_at
      FROM destinations
     WHERE agent >= ifnull(:agent, '') AND (:agent IS NULL OR agent = :agent)
     ORDER BY agent, name
     LIMIT :limit
"""


def destinations(conn: apsw.Connection, *, agent: str | None, limit: int) -> list[DestinationView]:
    """Where agents may send, by agent and name."""
    return named(DestinationView, rows(conn, DESTINATIONS, {"agent": agent, "limit": limit}))


# -- people


class RoleView(TypedDict):
    """``owner``, or ``admin``: of one agent or, without *agent*, of everything."""

    role: RoleName
    agent: str | None
    grantedBy: str
    createdAt: int


class MembershipView(TypedDict):
    """The user may talk to the agent or, if *isRefused*, may not."""

    agent: str
    isRefused: bool
    addedBy: str
    createdAt: int


class UserView(TypedDict):
    """One person or program on one platform; *directChat*: the id of the direct chat with the user."""

    id: int
    channel: str
    senderId: str
    name: str
    createdAt: int
    roles: list[RoleView]
    members: list[MembershipView]
    directChat: int | None


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
) -> list[UserView]:
    """The known users, with roles (the highest first) and memberships; with *agent*, those whom it knows."""
    values = {"channel": channel, "sender_id": sender_id, "agent": agent, "before": before, "limit": limit}
    return named(UserView, rows(conn, USERS, values), roles=_roles, members=_memberships)


def _roles(stored: str) -> list[RoleView]:
    return sorted(json.loads(stored), key=lambda role: (role["role"] != "owner", role["agent"] or ""))


def _memberships(stored: str) -> list[MembershipView]:
    found: list[MembershipView] = json.loads(stored)
    for each in found:
        each["isRefused"] = bool(each["isRefused"])
    return found


def user(conn: apsw.Connection, user_id: int) -> UserView | None:
    """One user, or None."""
    found = users(conn, before=min(user_id, NEWEST - 1) + 1, limit=1)
    return found[0] if found and found[0]["id"] == user_id else None


# -- approvals and pairings


class ApprovalView(TypedDict):
    """A request for approval, with the details that the card leaves out.

    *options*: the labels of the options, the last of which is the refusal; *choice*: the number of the chosen one;
    *held*: how many messages wait for the decision; *approver*: the user who got the card.
    """

    id: int
    approvalId: str
    kind: str
    title: str
    agent: str | None
    chatId: int | None
    userId: int | None
    sessionId: str | None
    payload: dict[str, Any]
    options: list[str]
    status: approval_rows.Status
    choice: int | None
    decidedBy: str | None
    approver: int | None
    expiresAt: int
    createdAt: int
    updatedAt: int
    held: int


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


def approvals(conn: apsw.Connection, *, status: str | None, before: int, limit: int) -> list[ApprovalView]:
    """The approval requests, pending and decided."""
    return _approvals(rows(conn, APPROVALS, {"status": status, "before": before, "limit": limit}))


def approval(conn: apsw.Connection, approval_id: str) -> ApprovalView | None:
    """One approval request, or None."""
    return next(iter(_approvals(rows(conn, APPROVAL, {"id": approval_id}))), None)


def _approvals(found: list[tuple[Any, ...]]) -> list[ApprovalView]:
    return named(ApprovalView, found, payload=content.readable, options=content.readable_list)


class PairingView(TypedDict):
    """A pairing code, without the code itself, of which only a hash is stored. *usedBy*: the user who used it."""

    id: int
    pairingId: str
    grants: Grants
    agent: str | None
    status: Literal["open", "used", "expired", "revoked"]
    usedBy: int | None
    expiresAt: int
    createdAt: int


PAIRINGS = """
    SELECT id, pairing_id, grants, agent, iif(status = 'open' AND expires_at <= :now, 'expired', status), used_by,
           expires_at, created_at
      FROM pairings
     WHERE id < :before
     ORDER BY id DESC
     LIMIT :limit
"""


def pairings(conn: apsw.Connection, *, before: int, limit: int, now_ms: int) -> list[PairingView]:
    """The pairings, newest first."""
    return named(PairingView, rows(conn, PAIRINGS, {"before": before, "limit": limit, "now": now_ms}))
