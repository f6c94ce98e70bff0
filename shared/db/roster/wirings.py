"""Wirings: which agent answers in which chat, and when. ``shared.roster.wirings`` checks and saves them."""

from typing import Literal, NamedTuple

import apsw

from shared.db.engine.connection import rows
from shared.db.roster.chats import Chat

EngageMode = Literal["pattern", "mention", "mention-sticky"]
SenderScope = Literal["all", "known"]
IgnoredMessagePolicy = Literal["drop", "accumulate"]
SessionMode = Literal["shared", "per-thread", "agent-shared"]


class Wiring(NamedTuple):
    """A row of ``wirings``."""

    id: int
    chat_id: int
    agent: str
    engage_mode: str
    engage_pattern: str | None
    sender_scope: str
    ignored_message_policy: str
    session_mode: str
    priority: int
    created_at: int


class WiredChat(NamedTuple):
    """A chat and its wirings, highest priority first. *is_gathering*: pieces of an album wait there for the others."""

    chat: Chat
    wirings: list[Wiring]
    is_gathering: bool = False


# Sorted in Python: in SQL each message would build a temporary table for one or two rows.
FIND_CHAT = """
    SELECT c.id, c.channel, c.platform_id, c.is_group, c.status, c.sender_policy, c.refused_at, c.name, c.opens_for,
           c.created_at,
           EXISTS (SELECT 1
                     FROM albums a
                    WHERE a.channel = :channel AND a.platform_id = :platform_id AND a.status = 'gathering'),
           w.id, w.chat_id, w.agent, w.engage_mode, w.engage_pattern, w.sender_scope, w.ignored_message_policy,
           w.session_mode, w.priority, w.created_at
      FROM chats c
      LEFT JOIN wirings w ON w.chat_id = c.id
     WHERE c.channel = :channel AND c.platform_id = :platform_id
"""
_CHAT_COLUMNS = len(Chat._fields)


def find_chat(conn: apsw.Connection, channel: str, platform_id: str) -> WiredChat | None:
    """The chat with this id of the platform, with its wirings, or None: there is no such chat."""
    found = rows(conn, FIND_CHAT, (channel, platform_id))
    if not found:
        return None
    chat = Chat.of(found[0][:_CHAT_COLUMNS])
    wired = [Wiring._make(row[_CHAT_COLUMNS + 1 :]) for row in found if row[_CHAT_COLUMNS + 1] is not None]
    return WiredChat(chat, sorted(wired, key=_rank), bool(found[0][_CHAT_COLUMNS]))


_SELECT = """
    SELECT id, chat_id, agent, engage_mode, engage_pattern, sender_scope, ignored_message_policy, session_mode,
           priority, created_at
      FROM wirings
"""


def of_chat(conn: apsw.Connection, chat_id: int) -> list[Wiring]:
    """The chat's wirings, highest priority first."""
    found = rows(conn, _SELECT + " WHERE chat_id = :chat_id", {"chat_id": chat_id})
    return sorted(map(Wiring._make, found), key=_rank)


def _rank(wiring: Wiring) -> tuple[int, int]:
    return -wiring.priority, wiring.id


def get(conn: apsw.Connection, chat_id: int, agent: str) -> Wiring | None:
    """The wiring of *agent* in the chat, or None."""
    found = rows(conn, _SELECT + " WHERE chat_id = :chat_id AND agent = :agent", {"chat_id": chat_id, "agent": agent})
    return Wiring(*found[0]) if found else None


def put(
    conn: apsw.Connection,
    chat_id: int,
    agent: str,
    *,
    engage_mode: str,
    engage_pattern: str | None,
    sender_scope: str,
    ignored_message_policy: str,
    session_mode: str,
    priority: int,
    now_ms: int,
) -> Wiring:
    """Create or change the wiring; its id and ``created_at`` stay."""
    found = rows(
        conn,
        """
        INSERT INTO wirings (chat_id, agent, engage_mode, engage_pattern, sender_scope, ignored_message_policy,
                             session_mode, priority, created_at)
        VALUES (:chat_id, :agent, :engage_mode, :engage_pattern, :sender_scope, :ignored_message_policy,
                :session_mode, :priority, :now)
        ON CONFLICT (chat_id, agent) DO UPDATE
           SET engage_mode = excluded.engage_mode, engage_pattern = excluded.engage_pattern,
               sender_scope = excluded.sender_scope, ignored_message_policy = excluded.ignored_message_policy,
               session_mode = excluded.session_mode, priority = excluded.priority
        RETURNING id, chat_id, agent, engage_mode, engage_pattern, sender_scope, ignored_message_policy, session_mode,
                  priority, created_at
        """,
        {
            "chat_id": chat_id,
            "agent": agent,
            "engage_mode": engage_mode,
            "engage_pattern": engage_pattern,
            "sender_scope": sender_scope,
            "ignored_message_policy": ignored_message_policy,
            "session_mode": session_mode,
            "priority": priority,
            "now": now_ms,
        },
    )
    return Wiring(*found[0])


def delete(conn: apsw.Connection, chat_id: int, agent: str) -> bool:
    """Delete the wiring, and with it the destination. False: there is no such wiring."""
    conn.execute(
        "DELETE FROM wirings WHERE chat_id = :chat_id AND agent = :agent", {"chat_id": chat_id, "agent": agent}
    )
    return conn.changes() == 1
