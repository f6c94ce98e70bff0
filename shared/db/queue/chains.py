"""Chains: how much agents wrote to each other because of one message, which agents, and who knows that it was ended."""

from collections.abc import Collection, Iterable

import apsw

from shared.db.engine.connection import rows

KEPT_MS = 24 * 60 * 60 * 1000  # after its last message; then the chain is forgotten, and its count begins again

_COUNT = """
    INSERT INTO chains (origin, sent, last_active)
    SELECT :origin, :more, :now
     WHERE :more <= :most
    ON CONFLICT (origin) DO UPDATE
       SET sent = sent + excluded.sent, last_active = excluded.last_active
     WHERE sent + excluded.sent <= :most
    RETURNING sent
"""

_JOIN = "INSERT INTO chain_agents (origin, agent) VALUES (:origin, :agent) ON CONFLICT DO NOTHING"


def count(
    conn: apsw.Connection, origin: str, agents: Collection[str], *, more: int, most: int | None, now_ms: int
) -> bool:
    """Count *more* messages of a chain, between *agents*; False: it would have over *most*, and nothing is counted."""
    limit = 2**62 if most is None else most
    if not rows(conn, _COUNT, {"origin": origin, "more": more, "most": limit, "now": now_ms}):
        return False
    conn.executemany(_JOIN, [{"origin": origin, "agent": agent} for agent in agents])
    return True


_END = """
    INSERT INTO chains (origin, sent, ended_at, last_active)
    VALUES (:origin, 0, :now, :now)
    ON CONFLICT (origin) DO UPDATE
       SET ended_at = excluded.ended_at
     WHERE ended_at IS NULL
    RETURNING origin
"""

_TELL = """
    UPDATE chain_agents
       SET told_at = :now
     WHERE origin = :origin AND told_at IS NULL
    RETURNING agent
"""


def end(conn: apsw.Connection, origin: str, *, now_ms: int) -> bool:
    """Record that a message of the chain was refused; whether it is the first one. The origin is told of that one."""
    return bool(rows(conn, _END, {"origin": origin, "now": now_ms}))


def tell_agents(conn: apsw.Connection, origin: str, agents: Iterable[str], *, now_ms: int) -> list[str]:
    """The agents of the ended chain, with *agents*, that have not been told yet; from now on they count as told."""
    conn.executemany(_JOIN, [{"origin": origin, "agent": agent} for agent in agents])
    return sorted(agent for (agent,) in rows(conn, _TELL, {"origin": origin, "now": now_ms}))


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Forget up to *limit* chains without a message since *older_than_ms*; how many."""
    conn.execute(
        """
        DELETE FROM chains
         WHERE origin IN (SELECT origin
                            FROM chains
                           WHERE last_active < :cutoff
                           ORDER BY last_active
                           LIMIT :limit)
        """,
        {"cutoff": older_than_ms, "limit": limit},
    )
    return conn.changes()
