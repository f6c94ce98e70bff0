"""What was said in a session, as its agent may read it again."""

from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows

_LOOKED_AT = 5000  # lines of histories, at most


class SaidLine(NamedTuple):
    """One line: *sender* is a person, or the agent itself."""

    at_ms: int
    sender: str
    text: str


OF_SESSION = """
    SELECT h.created_at, h.sender, h.content
      FROM agent_messages h
      JOIN messages m ON m.message_id = h.message_id
     WHERE h.agent_id = :agent AND h.id > (SELECT max(id) FROM agent_messages) - :looked_at
       AND m.session_id = :session
     ORDER BY h.id DESC
     LIMIT :limit
"""


def of_session(conn: apsw.Connection, agent: str, session_id: int, *, limit: int) -> list[SaidLine]:
    """The newest lines of the session whose messages are still stored, oldest first."""
    values = {"agent": agent, "session": session_id, "limit": limit, "looked_at": _LOOKED_AT}
    return [SaidLine(*row) for row in reversed(rows(conn, OF_SESSION, values))]
