"""The lines of the teams' rooms; append-only."""

import apsw

USER = "user"  # the sender of a line that no agent wrote


def append(conn: apsw.Connection, *, team: str, from_agent: str, message: str, now_ms: int) -> int:
    """Add a line; its id."""
    conn.execute(
        "INSERT INTO chat_messages (team_id, from_agent, message, created_at) VALUES (:team, :from, :message, :now)",
        {"team": team, "from": from_agent, "message": message, "now": now_ms},
    )
    return conn.last_insert_rowid()
