"""The lines of the teams' rooms; append-only."""

import apsw

USER = "user"  # the sender of a line that no agent wrote


_APPEND = """
    INSERT INTO chat_messages (team_id, from_agent, message, created_at, channel, sender_id)
    SELECT :team, :from, :message, :now, origin.channel, origin.sender_id
      FROM (SELECT 1)
      LEFT JOIN messages origin ON origin.message_id = :origin AND origin.sender_id IS NOT NULL
"""


def append(conn: apsw.Connection, *, team: str, from_agent: str, message: str, origin: str, now_ms: int) -> int:
    """Add a line; its id.

    Args:
        origin: the message that began the chain, see ``core.hops``: the line keeps its person.
    """
    conn.execute(_APPEND, {"team": team, "from": from_agent, "message": message, "origin": origin, "now": now_ms})
    return conn.last_insert_rowid()
