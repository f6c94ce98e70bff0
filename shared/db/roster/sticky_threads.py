"""Threads in which an agent was mentioned once, and so answers without another mention."""

import apsw

from shared.db.engine.connection import scalar


def add(conn: apsw.Connection, wiring_id: int, thread_id: str, now_ms: int) -> None:
    """Let the wiring engage with every message in this thread from now on."""
    conn.execute(
        """
        INSERT INTO sticky_threads (wiring_id, thread_id, created_at)
        VALUES (:wiring_id, :thread_id, :now)
        ON CONFLICT (wiring_id, thread_id) DO NOTHING
        """,
        {"wiring_id": wiring_id, "thread_id": thread_id, "now": now_ms},
    )


def has(conn: apsw.Connection, wiring_id: int, thread_id: str) -> bool:
    """Whether the wiring was mentioned in this thread before."""
    return bool(
        scalar(
            conn,
            "SELECT EXISTS (SELECT 1 FROM sticky_threads WHERE wiring_id = :wiring_id AND thread_id = :thread_id)",
            {"wiring_id": wiring_id, "thread_id": thread_id},
        )
    )
