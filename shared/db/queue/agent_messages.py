"""Every agent's history. Lines are added, and deleted where a person asks for it (``forgotten_people``)."""

from collections.abc import Iterable
from typing import NamedTuple

import apsw

from shared.db.engine.columns import bound, listed
from shared.db.engine.connection import insert_into, rows


class AgentMessage(NamedTuple):
    """One line of an agent's history; *role* is ``user`` or ``assistant``.

    *session_id*: the row of the session in which it was said; None: an earlier release stored the line. *sender_id*: of
    the person who wrote it, or whose message it answers; None: there is none, or an earlier release stored the line.
    """

    agent_id: str
    role: str
    channel: str
    sender: str
    message_id: str
    content: str
    created_at: int
    session_id: int | None = None
    sender_id: str | None = None


_INSERT = insert_into("agent_messages", AgentMessage._fields)


def append(conn: apsw.Connection, lines: Iterable[AgentMessage]) -> None:
    """Add the lines, in order."""
    conn.executemany(_INSERT, lines)


_INSERT_AFTER = f"""
    INSERT INTO agent_messages (id, {listed(AgentMessage._fields)})
    VALUES (max(:after, ifnull((SELECT max(id) FROM agent_messages), 0)) + 1, {bound(AgentMessage._fields)})
"""  # noqa: S608


def append_after(conn: apsw.Connection, newest: int, lines: Iterable[AgentMessage]) -> None:
    """The same, with numbers above *newest*: SQLite alone would give the number of a deleted line again."""
    conn.executemany(_INSERT_AFTER, ({**line._asdict(), "after": newest} for line in lines))


_LOOKED_AT = 5000  # of the agent's newest lines: no index is kept for what is needed so rarely

OF_SESSION = """
    SELECT agent_id, role, channel, sender, message_id, content, created_at, session_id, sender_id
      FROM (SELECT *
              FROM agent_messages
             WHERE agent_id = :agent
             ORDER BY id DESC
             LIMIT :looked_at) newest
     WHERE ifnull(session_id, (SELECT m.session_id FROM messages m WHERE m.message_id = newest.message_id)) = :session
     ORDER BY newest.id DESC
     LIMIT :limit
"""


def of_session(conn: apsw.Connection, agent: str, session_id: int, *, limit: int) -> list[AgentMessage]:
    """The newest lines of the session, oldest first; one of an earlier release is found while its message is here."""
    key = {"agent": agent, "session": session_id, "looked_at": _LOOKED_AT, "limit": limit}
    return [AgentMessage(*found) for found in reversed(rows(conn, OF_SESSION, key))]
