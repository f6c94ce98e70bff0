"""Wirings: which agent answers in which chat, and when."""

from typing import NamedTuple

import apsw

from shared.db.connection import rows


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


# In the order of an index; sorting in SQL would build a table for the one or two rows of each message.
OF_PLACE = """
    SELECT w.id, w.chat_id, w.agent, w.engage_mode, w.engage_pattern, w.sender_scope, w.ignored_message_policy,
           w.session_mode, w.priority
      FROM chats c
     CROSS JOIN wirings w
     WHERE c.channel = :channel AND c.platform_id = :platform_id AND w.chat_id = c.id
"""


def of_place(conn: apsw.Connection, channel: str, platform_id: str) -> list[Wiring]:
    """The wirings of the chat that the platform knows under *platform_id*, most important first."""
    found = rows(conn, OF_PLACE, {"channel": channel, "platform_id": platform_id})
    return sorted(map(Wiring._make, found), key=_rank)


def of_chat(conn: apsw.Connection, chat_id: int) -> list[Wiring]:
    """The chat's wirings, most important first."""
    found = rows(
        conn,
        """
        SELECT id, chat_id, agent, engage_mode, engage_pattern, sender_scope, ignored_message_policy, session_mode,
               priority
          FROM wirings
         WHERE chat_id = :chat_id
        """,
        {"chat_id": chat_id},
    )
    return sorted(map(Wiring._make, found), key=_rank)


def _rank(wiring: Wiring) -> tuple[int, int]:
    return -wiring.priority, wiring.id


def connect(conn: apsw.Connection, chat_id: int, agent: str, *, now_ms: int, session_mode: str = "shared") -> None:
    """Let *agent* answer in the chat when it is addressed; nothing changes if it already does."""
    conn.execute(
        """
        INSERT INTO wirings (chat_id, agent, engage_mode, session_mode, created_at)
        VALUES (:chat_id, :agent, 'mention', :session_mode, :now)
        ON CONFLICT (chat_id, agent) DO NOTHING
        """,
        {"chat_id": chat_id, "agent": agent, "session_mode": session_mode, "now": now_ms},
    )
