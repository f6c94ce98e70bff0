"""Sessions: one agent's continuing context in one chat or thread."""

from dataclasses import dataclass

import apsw

from shared import ids
from shared.db.connection import rows, scalar


@dataclass(frozen=True, slots=True)
class Session:
    """A row of ``sessions``, as a turn needs it."""

    id: int
    session_id: str
    continuation: str | None


def get(conn: apsw.Connection, id_: int) -> Session | None:
    """The session, or None."""
    found = rows(conn, "SELECT id, session_id, continuation FROM sessions WHERE id = :id", {"id": id_})
    return Session(*found[0]) if found else None


def ensure(conn: apsw.Connection, agent: str, chat_id: int | None, thread_id: str | None, *, now_ms: int) -> int:
    """The id of the active session, made if there is none; an index holds that there is one."""
    key = {"agent": agent, "chat": chat_id, "thread": thread_id, "now": now_ms}
    found: int | None = scalar(
        conn,
        """
        SELECT id
          FROM sessions
         WHERE agent = :agent AND ifnull(chat_id, 0) = ifnull(:chat, 0)
           AND ifnull(thread_id, '') = ifnull(:thread, '') AND status = 'active'
        """,
        key,
    )
    if found is not None:
        return found
    conn.execute(
        """
        INSERT INTO sessions (session_id, agent, chat_id, thread_id, created_at, last_active)
        VALUES (:session_id, :agent, :chat, :thread, :now, :now)
        """,
        {**key, "session_id": ids.new("session")},
    )
    return conn.last_insert_rowid()


def touch(conn: apsw.Connection, session_id: int, *, continuation: str | None, now_ms: int) -> None:
    """A turn ended: remember when, and how the provider goes on."""
    conn.execute(
        "UPDATE sessions SET last_active = :now, continuation = ifnull(:continuation, continuation) WHERE id = :id",
        {"now": now_ms, "continuation": continuation, "id": session_id},
    )
