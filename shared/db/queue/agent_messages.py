"""Every agent's history; append-only."""

from collections.abc import Iterable
from typing import NamedTuple

import apsw


class AgentMessage(NamedTuple):
    """One line of an agent's history; *role* is ``user`` or ``assistant``."""

    agent: str
    role: str
    channel: str
    sender: str
    message_id: str
    content: str
    created_at: int


def append(conn: apsw.Connection, lines: Iterable[AgentMessage]) -> None:
    """Add the lines, in order."""
    conn.executemany(
        """
        INSERT INTO agent_messages (agent_id, role, channel, sender, message_id, content, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        """,
        lines,
    )
