"""How many rows are open, and how old the oldest is: from the indexes of open rows, however many are finished."""

from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows


class Depth(NamedTuple):
    """Open rows of one agent or channel in one state; *oldest_ms*: since when the oldest waits, or None.

    None: what is planned, paused or fetched by a client may wait as long as it likes. What was planned waits since it
    was due; what runs has the age of its turn.
    """

    name: str
    state: str
    number: int
    oldest_ms: int | None


# `delayed` holds what had to wait for an instant, and still may; one that failed before is tried again then. The rest,
# which may be much, comes from the index alone.
MESSAGES = """
    WITH delayed (id, at, failed, since) AS MATERIALIZED (
        SELECT id, process_after, failure IS NOT NULL,
               iif(failure IS NULL, process_after, max(created_at, ifnull(scheduled_at, 0)))
          FROM messages
         WHERE process_after IS NOT NULL AND status = 'pending' AND trigger = 1),
    open AS (
        SELECT m.agent,
               CASE WHEN m.status = 'processing' THEN 'running'
                    WHEN d.at > :now AND d.failed = 0 THEN 'planned'
                    WHEN p.agent IS NOT NULL THEN 'paused'
                    WHEN d.at > :now THEN 'retrying'
                    ELSE 'due' END AS state,
               iif(m.status = 'processing', (SELECT updated_at FROM messages WHERE id = m.id), d.since) AS since,
               m.id
          FROM messages m INDEXED BY messages_open
          LEFT JOIN delayed d ON d.id = m.id
          LEFT JOIN agent_pauses p ON p.agent = m.agent AND p.state = 'paused'
         WHERE m.trigger = 1 AND (m.status = 'pending' OR m.status = 'processing')),
    found AS (
        SELECT agent, state, count(*) AS number, min(since) AS since, min(id) FILTER (WHERE since IS NULL) AS oldest
          FROM open
         GROUP BY agent, state)
    SELECT f.agent, f.state, f.number,
           iif(f.state = 'planned' OR f.state = 'paused', NULL,
               min(ifnull(f.since, m.created_at), ifnull(m.created_at, f.since)))
      FROM found f
      LEFT JOIN messages m ON m.id = f.oldest
"""

DEAD_MESSAGES = """
    SELECT agent, 'dead', count(*), min(created_at) FROM messages WHERE status = 'dead' GROUP BY agent
"""

RESPONSES = """
    WITH later (id, failed) AS MATERIALIZED (
        SELECT id, failure IS NOT NULL
          FROM responses
         WHERE deliver_after > :now AND deliver_after IS NOT NULL AND status = 'pending'),
    open AS (
        SELECT r.channel,
               CASE WHEN r.status = 'delivering' THEN 'sending'
                    WHEN l.failed = 0 THEN 'planned'
                    WHEN l.failed = 1 THEN 'retrying'
                    ELSE 'due' END AS state,
               r.id
          FROM responses r INDEXED BY responses_open
          LEFT JOIN later l ON l.id = r.id
         WHERE r.status = 'pending' OR r.status = 'delivering'),
    found AS (
        SELECT channel, state, count(*) AS number, min(id) AS oldest FROM open GROUP BY channel, state)
    SELECT f.channel, f.state, f.number,
           iif(f.state = 'planned', NULL, (SELECT created_at FROM responses WHERE id = f.oldest))
      FROM found f
"""

DEAD_RESPONSES = """
    SELECT channel, 'dead', count(*), min(created_at)
      FROM responses
     WHERE status = 'dead' AND coalesce(failure, '') NOT IN ('not_fetched', 'called_off')
     GROUP BY channel
"""

TASKS = """
    SELECT CASE WHEN status = 'pending' THEN iif(process_after > :now, 'planned', 'due')
                WHEN status = 'paused' THEN 'paused'
                ELSE 'running' END AS state,
           count(*)
      FROM messages
     WHERE series_id IS NOT NULL AND (status = 'pending' OR status = 'processing' OR status = 'paused')
     GROUP BY 1
"""


def messages(conn: apsw.Connection, *, now_ms: int) -> list[Depth]:
    """By agent: ``due``, ``planned``, ``paused`` (its agent is), ``retrying``, ``running``, ``dead``."""
    return [Depth(*row) for sql in (MESSAGES, DEAD_MESSAGES) for row in rows(conn, sql, {"now": now_ms})]


def responses(conn: apsw.Connection, *, served: set[str], now_ms: int) -> list[Depth]:
    """By channel: ``due``, ``planned``, ``retrying``, ``sending``, ``dead``; ``to_fetch`` where a client fetches them.

    Args:
        served: the channels with an adapter.
    """
    found = [Depth(*row) for sql in (RESPONSES, DEAD_RESPONSES) for row in rows(conn, sql, {"now": now_ms})]
    return [
        each._replace(state="to_fetch", oldest_ms=None) if each.state == "due" and each.name not in served else each
        for each in found
    ]


def tasks(conn: apsw.Connection, *, now_ms: int) -> dict[str, int]:
    """How many tasks are ``due``, ``planned``, ``paused`` or ``running``."""
    return {"due": 0, "planned": 0, "paused": 0, "running": 0} | dict(rows(conn, TASKS, {"now": now_ms}))
