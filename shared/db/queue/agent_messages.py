"""Every agent's history; append-only."""

from collections.abc import Iterable
from typing import NamedTuple

import apsw

from shared.db.engine.connection import insert_into


class AgentMessage(NamedTuple):
    """One line of an agent's history; *role* is ``user`` or ``assistant``."""

    agent_id: str
    role: str
    channel: str
    sender: str
    message_id: str
    content: str
    created_at: int


_INSERT = insert_into("agent_messages", AgentMessage._fields)


def append(conn: apsw.Connection, lines: Iterable[AgentMessage]) -> None:
    """Add the lines, in order."""
    conn.executemany(_INSERT, lines)
