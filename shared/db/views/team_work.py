"""What an agent does now, what waits for it, and what one other agent handed over to it. Nobody else's words."""

from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows
from shared.db.roster import agent_pauses


class Running(NamedTuple):
    """A turn: since when (ms UTC), and whether it is about something of the agent that asks."""

    since: int
    is_of_asker: bool


class Given(NamedTuple):
    """What the agent that asks handed over, and has no answer to; instants in ms UTC.

    Attributes:
        since: when it was written.
        deadline: when the agent that asks is woken; None: never.
    """

    text: str
    status: str
    since: int
    deadline: int | None


class Work(NamedTuple):
    """The work of one agent.

    Attributes:
        paused: why it can't work, as a code; None: it can.
        waiting: messages that ask for a turn and have none, without those that are planned for later.
        waiting_since: of the oldest of them, in ms UTC.
        of_asker: the oldest ones.
    """

    paused: str | None
    running: tuple[Running, ...]
    waiting: int
    waiting_since: int | None
    of_asker: tuple[Given, ...]


RUNNING = """
    SELECT min(updated_at), max(from_agent IS NOT NULL AND from_agent = :asker)
      FROM messages
     WHERE agent = :agent AND trigger = 1 AND status = 'processing'
     GROUP BY session_id
     ORDER BY 1
"""

WAITING = """
    SELECT count(*), min(created_at)
      FROM messages
     WHERE agent = :agent AND trigger = 1 AND status = 'pending'
       AND (process_after IS NULL OR process_after <= :now OR failure IS NOT NULL)
"""

OF_ASKER = """
    SELECT m.message, m.status, m.created_at, wake.process_after
      FROM messages m
      LEFT JOIN messages wake ON wake.id = m.content ->> '$.deadline'
     WHERE m.agent = :agent AND m.trigger = 1 AND (m.status = 'pending' OR m.status = 'processing')
       AND m.from_agent = :asker AND m.channel = 'internal' AND m.content ->> '$.is_answer' IS NULL
     ORDER BY m.id
     LIMIT :limit
"""
_MOST = 5


def of(conn: apsw.Connection, agent: str, *, asker: str, now_ms: int) -> Work:
    """The work of *agent*, as agent *asker* may see it."""
    pause = agent_pauses.find(conn, agent)
    ((waiting, since),) = rows(conn, WAITING, {"agent": agent, "now": now_ms})
    running = rows(conn, RUNNING, {"agent": agent, "asker": asker})
    given = rows(conn, OF_ASKER, {"agent": agent, "asker": asker, "limit": _MOST})
    return Work(
        paused=pause.code if pause is not None and pause.state == "paused" else None,
        running=tuple(Running(at, bool(is_of_asker)) for at, is_of_asker in running),
        waiting=waiting,
        waiting_since=since,
        of_asker=tuple(map(Given._make, given)),
    )
