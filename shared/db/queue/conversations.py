"""Conversations: messages between agents about one subject, until none has come for a while.

A closed conversation stays closed; a later message to it begins a new one.
"""

import apsw

from shared.core import ids
from shared.db.engine.connection import rows, scalar
from shared.db.queue import events


def begin(conn: apsw.Connection, *, now_ms: int) -> str:
    """Begin a conversation; returns its id."""
    id_ = ids.new("conversation")
    conn.execute(
        "INSERT INTO conversations (id, created_at, last_active) VALUES (:id, :now, :now)", {"id": id_, "now": now_ms}
    )
    return id_


def touch(conn: apsw.Connection, id_: str, *, now_ms: int) -> bool:
    """Record a message in the conversation. False: it is closed, or there is none."""
    conn.execute(
        """
        UPDATE conversations
           SET last_active = max(last_active, :now)
         WHERE id = :id AND status = 'open'
        """,
        {"now": now_ms, "id": id_},
    )
    return conn.changes() == 1


def carry_on(conn: apsw.Connection, id_: str | None, *, now_ms: int) -> str:
    """The conversation of a message that follows one of *id_*: the same while it is open, else a new one."""
    if id_ is not None and touch(conn, id_, now_ms=now_ms):
        return id_
    return begin(conn, now_ms=now_ms)


IDLE = """
    UPDATE conversations
       SET status = 'closed'
     WHERE id IN (SELECT id
                    FROM conversations
                   WHERE status = 'open' AND last_active < :before
                   ORDER BY last_active
                   LIMIT :limit)
    RETURNING id, last_active
"""


def close_idle(conn: apsw.Connection, *, idle_since_ms: int, limit: int, now_ms: int) -> int:
    """Close up to *limit* conversations without a message since *idle_since_ms*; returns how many."""
    closed = rows(conn, IDLE, {"before": idle_since_ms, "limit": limit})
    for id_, last_active in sorted(closed):
        events.append(
            conn, "conversation_closed", now_ms=now_ms, data={"conversation": id_, "last_active": last_active}
        )
    return len(closed)


def open_count(conn: apsw.Connection) -> int:
    """How many conversations are open."""
    count: int = scalar(conn, "SELECT count(*) FROM conversations WHERE status = 'open'")
    return count


def prune(conn: apsw.Connection, *, after: str, older_than_ms: int, limit: int) -> tuple[int, str]:
    """Look at up to *limit* conversations after *after*, and delete the closed ones from before *older_than_ms*.

    Returns:
        How many were deleted, and the id after which to go on ('': the end was reached).
    """
    found = rows(
        conn,
        """
        SELECT id, status = 'closed' AND last_active < :before
          FROM conversations
         WHERE id > :after
         ORDER BY id
         LIMIT :limit
        """,
        {"before": older_than_ms, "after": after, "limit": limit},
    )
    old = [{"id": id_} for id_, is_old in found if is_old]
    conn.executemany("DELETE FROM conversations WHERE id = :id", old)
    if len(found) < limit:
        return len(old), ""
    last, _ = found[-1]
    return len(old), last
