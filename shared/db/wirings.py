"""Wirings: which agent answers in which chat, and when."""

from dataclasses import dataclass

import apsw

from shared.db.connection import rows


@dataclass(frozen=True, slots=True)
class Wiring:
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


def of_chat(conn: apsw.Connection, chat_id: int) -> list[Wiring]:
    """The chat's wirings, most important first."""
    found = rows(
        conn,
        """
        SELECT id, chat_id, agent, engage_mode, engage_pattern, sender_scope, ignored_message_policy, session_mode,
               priority
          FROM wirings
         WHERE chat_id = :chat_id
         ORDER BY priority DESC, id
        """,
        {"chat_id": chat_id},
    )
    return [Wiring(*row) for row in found]


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
