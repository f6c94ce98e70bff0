"""The direct chat that reaches a user: learnt once, from a message there or from the platform, and kept."""

import apsw

from shared.db.engine.connection import scalar


def get(conn: apsw.Connection, user_id: int) -> int | None:
    """The user's direct chat, or None: it is unknown."""
    found: int | None = scalar(conn, "SELECT chat_id FROM user_dms WHERE user_id = :user_id", {"user_id": user_id})
    return found


def put(conn: apsw.Connection, user_id: int, chat_id: int, now_ms: int) -> bool:
    """Store the chat. False: it was stored already, and nothing was written."""
    conn.execute(
        """
        INSERT INTO user_dms (user_id, chat_id, resolved_at)
        VALUES (:user_id, :chat_id, :now)
        ON CONFLICT (user_id) DO UPDATE
           SET chat_id = excluded.chat_id, resolved_at = excluded.resolved_at
         WHERE chat_id <> excluded.chat_id
        """,
        {"user_id": user_id, "chat_id": chat_id, "now": now_ms},
    )
    return conn.changes() == 1
