"""The sessions that have a due message and no turn, and when the next message becomes due.

This module only reads. A session that it finds may have nothing due any more: ``claims.claim`` looks again.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import apsw

from shared.db.engine.connection import rows, scalar
from shared.db.queue.message_row import LONGEST_DEBOUNCE_MS, SUSPECT_FROM

# Loose scans: one step of the index for each agent, and one for each of its sessions, whatever their backlogs.
OPEN_AGENTS = """
    WITH RECURSIVE open (agent) AS (
        SELECT min(agent)
          FROM messages
         WHERE trigger = 1 AND (status = 'pending' OR status = 'processing')
         UNION ALL
        SELECT (SELECT min(m.agent)
                  FROM messages m
                 WHERE m.trigger = 1 AND (m.status = 'pending' OR m.status = 'processing') AND m.agent > open.agent)
          FROM open
         WHERE open.agent IS NOT NULL
    )
    SELECT a.id, a.concurrency, a.batch_size
      FROM open
      JOIN agents a ON a.id = open.agent
"""

# Those that work: the others' messages wait.
_WORKS = """
     WHERE NOT EXISTS (SELECT 1 FROM agent_pauses p WHERE p.agent = a.id AND p.state = 'paused')
"""
READY_AGENTS = OPEN_AGENTS + _WORKS

# A session's part of the index begins with the messages that a turn has. Without any, its first message is the oldest
# that is due or waits for a retry. A message that is planned for later gives its session no place.
FIRSTS = f"""
    WITH RECURSIVE open (session_id) AS (
        SELECT min(session_id)
          FROM messages
         WHERE agent = :agent AND trigger = 1 AND (status = 'pending' OR status = 'processing')
         UNION ALL
        SELECT (SELECT min(m.session_id)
                  FROM messages m
                 WHERE m.agent = :agent AND m.trigger = 1 AND (m.status = 'pending' OR m.status = 'processing')
                   AND m.session_id > open.session_id)
          FROM open
         WHERE open.session_id IS NOT NULL
    )
    SELECT first.session_id, first.id, first.status = 'processing', first.process_after > :now,
           first.suspicion,
           first.gathers_until > :now AND first.gathers_until <= :now + {LONGEST_DEBOUNCE_MS}
      FROM open
      JOIN messages first
        ON first.id = (SELECT m.id
                         FROM messages m
                        WHERE m.agent = :agent AND m.session_id = open.session_id AND m.trigger = 1
                          AND (m.status = 'pending' OR m.status = 'processing')
                          AND (m.process_after IS NULL OR m.process_after <= :now OR m.failure IS NOT NULL
                               OR m.status = 'processing')
                        ORDER BY m.status DESC, m.id
                        LIMIT 1)
"""  # noqa: S608

# The sessions with a due urgent message, also as a loose scan.
URGENT_SESSIONS = """
    WITH RECURSIVE open (session_id) AS (
        SELECT min(session_id)
          FROM messages
         WHERE urgency = 'urgent' AND status = 'pending'
         UNION ALL
        SELECT (SELECT min(m.session_id)
                  FROM messages m
                 WHERE m.urgency = 'urgent' AND m.status = 'pending' AND m.session_id > open.session_id)
          FROM open
         WHERE open.session_id IS NOT NULL
    )
    SELECT open.session_id, (SELECT agent FROM sessions WHERE id = open.session_id)
      FROM open
     WHERE EXISTS (SELECT 1
                     FROM messages m
                    WHERE m.session_id = open.session_id AND m.urgency = 'urgent' AND m.status = 'pending'
                      AND m.trigger = 1 AND (m.process_after IS NULL OR m.process_after <= :now))
"""

# The sessions in which a message waits that interrupts their turns, as a loose scan too.
INTERRUPTED_SESSIONS = """
    WITH RECURSIVE open (session_id) AS (
        SELECT min(session_id)
          FROM messages
         WHERE while_busy = 'interrupt' AND status = 'pending'
         UNION ALL
        SELECT (SELECT min(m.session_id)
                  FROM messages m
                 WHERE m.while_busy = 'interrupt' AND m.status = 'pending' AND m.session_id > open.session_id)
          FROM open
         WHERE open.session_id IS NOT NULL
    )
    SELECT session_id
      FROM open
     WHERE session_id IS NOT NULL
"""

NEXT_DUE = """
    SELECT min(process_after)
      FROM messages
     WHERE status = 'pending' AND process_after IS NOT NULL AND process_after > :now
"""
NEXT_GATHERED = """
    SELECT min(gathers_until)
      FROM messages
     WHERE status = 'pending' AND gathers_until IS NOT NULL AND gathers_until > :now
"""


@dataclass(frozen=True, slots=True)
class ReadySession:
    """A session with a due message and no turn.

    Attributes:
        head: the row of its oldest due message.
        is_suspect: dispatch went away twice or more while that message ran. Once may be chance, or the fault of a
            message beside it.
        batch_size: the agent's own, if it has one.
    """

    session_id: int
    agent: str
    head: int
    is_suspect: bool = False
    batch_size: int | None = None


def find(
    conn: apsw.Connection, *, now_ms: int, held: Mapping[int, str] | None = None, has_suspect: bool = False
) -> list[ReadySession]:
    """The sessions whose turn it is: those with an urgent message first, then by their oldest message.

    An agent has no more of them than its free concurrency.

    At most one is a suspect, so that the loss of dispatch while it runs speaks against it and no other.

    Args:
        held: session to agent, of the turns that still run in this process, even if their leases have ended.
        has_suspect: one of those is a suspect.
    """
    held = held or {}
    running = Counter(held.values())
    urgent = urgent_sessions(conn, now_ms=now_ms)

    def rank(each: ReadySession) -> tuple[bool, int]:
        return each.session_id not in urgent, each.head

    chosen: list[ReadySession] = []
    for agent, concurrency, batch_size in rows(conn, READY_AGENTS):
        room = concurrency - running[agent]
        if room <= 0:
            continue
        busy, waiting = _firsts(conn, agent, now_ms=now_ms, held=held, urgent=urgent)
        room -= busy
        for each in sorted(waiting, key=rank):
            if room > 0 and not (each.is_suspect and has_suspect):
                chosen.append(each if batch_size is None else replace(each, batch_size=batch_size))
                has_suspect = has_suspect or each.is_suspect
                room -= 1
    return sorted(chosen, key=rank)


def _firsts(
    conn: apsw.Connection, agent: str, *, now_ms: int, held: Mapping[int, str], urgent: Mapping[int, str]
) -> tuple[int, list[ReadySession]]:
    """How many of the agent's sessions are busy, apart from *held*; and its sessions whose turn it is."""
    busy = 0
    waiting: list[ReadySession] = []
    found = rows(conn, FIRSTS, {"agent": agent, "now": now_ms})
    for session_id, head, is_busy, is_later, suspicion, gathers in found:
        if session_id in held:
            continue
        if is_busy:
            busy += 1
        elif not is_later and (session_id in urgent or not gathers):  # else it waits, and holds its session
            waiting.append(ReadySession(session_id, agent, head, (suspicion or 0) >= SUSPECT_FROM))
    return busy, waiting


def urgent_sessions(conn: apsw.Connection, *, now_ms: int) -> dict[int, str]:
    """The sessions with a due urgent message, and their agents."""
    return dict(rows(conn, URGENT_SESSIONS, {"now": now_ms}))


def interrupted_sessions(conn: apsw.Connection) -> set[int]:
    """The sessions in which a message waits whose wiring lets it interrupt a turn."""
    return {session_id for (session_id,) in rows(conn, INTERRUPTED_SESSIONS)}


def next_due(conn: apsw.Connection, *, now_ms: int) -> int | None:
    """The instant in ms at which the next planned message, retry or burst of lines becomes due, or None."""
    dues = [scalar(conn, sql, {"now": now_ms}) for sql in (NEXT_DUE, NEXT_GATHERED)]
    return min((due for due in dues if due is not None), default=None)
