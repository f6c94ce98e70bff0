"""What waits for a person and what mends itself, by cause and not by row: groups that the indexes of open rows give."""

import json
from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows, scalar

_SHOWN = 200  # ids of a group: what one press of a button takes


class DeadGroup(NamedTuple):
    """Rows of one agent that died of one cause; *ids*: the newest 200, newest first; *error*: of the newest."""

    agent: str | None
    failure: str | None
    number: int
    first_ms: int
    last_ms: int
    error: str | None
    ids: list[int]


_GROUPS = """
    SELECT agent, failure, number, first_ms, last_ms, (SELECT last_error FROM {table} WHERE id = newest), ids
      FROM (SELECT agent, failure, count(*) AS number, min({at}) AS first_ms, max({at}) AS last_ms, max(id) AS newest,
                   json_group_array(id) AS ids
              FROM {table}
             WHERE {where}
             GROUP BY agent, failure)
     ORDER BY newest DESC
"""
_DEAD_MESSAGES = {"table": "messages", "where": "status = 'dead'", "at": "updated_at"}
_DEAD_ANSWERS = {
    "table": "responses",
    "where": "status = 'dead' AND coalesce(failure, '') NOT IN ('not_fetched', 'called_off')",
    "at": "created_at",
}


def dead_messages(conn: apsw.Connection) -> list[DeadGroup]:
    """The dead messages by agent and cause, the newest group first."""
    return _grouped(conn, _DEAD_MESSAGES)


def dead_answers(conn: apsw.Connection) -> list[DeadGroup]:
    """The responses that could not be sent, by agent and cause, the newest group first."""
    return _grouped(conn, _DEAD_ANSWERS)


def _grouped(conn: apsw.Connection, named: dict[str, str]) -> list[DeadGroup]:
    return [
        DeadGroup._make([*group, sorted(json.loads(ids), reverse=True)[:_SHOWN]])
        for *group, ids in rows(conn, _GROUPS.format_map(named))
    ]


class Retrying(NamedTuple):
    """Messages of one agent of which an attempt failed, and that are tried again by themselves.

    *next_ms*: the first of these attempts; *behind*: messages that wait in their sessions behind them; *error*: of the
    one that is tried first.
    """

    agent: str
    number: int
    next_ms: int
    behind: int
    error: str | None


_RETRYING = """
    SELECT m.agent, count(*), min(m.process_after),
           (SELECT count(*)
              FROM messages o
             WHERE o.agent = m.agent AND o.trigger = 1 AND (o.status = 'pending' OR o.status = 'processing')
               AND o.status = 'pending' AND o.failure IS NULL
               AND o.session_id IN (SELECT x.session_id
                                      FROM messages x
                                     WHERE x.agent = m.agent AND x.process_after > :now AND x.status = 'pending'
                                       AND x.failure IS NOT NULL)),
           m.last_error
      FROM messages m
     WHERE m.process_after > :now AND m.process_after IS NOT NULL AND m.status = 'pending' AND m.failure IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM agent_pauses p WHERE p.agent = m.agent AND p.state = 'paused')
     GROUP BY m.agent
     ORDER BY min(m.process_after)
"""


def retrying(conn: apsw.Connection, now_ms: int) -> list[Retrying]:
    """By agent, the soonest first; not of agents that are paused, whose messages wait for more than time."""
    return [Retrying(*row) for row in rows(conn, _RETRYING, {"now": now_ms})]


class SilentChat(NamedTuple):
    """A chat in which the platform asked for a pause, with answers that wait for its end."""

    chat_id: int
    channel: str
    name: str | None
    until_ms: int
    waiting: int


_SILENT = """
    SELECT c.id, c.channel, c.name, c.not_before, count(*)
      FROM chats c
      JOIN responses r ON r.channel = c.channel AND r.chat_id = c.id
                      AND (r.status = 'pending' OR r.status = 'delivering')
     WHERE c.not_before > :now
     GROUP BY c.id
     ORDER BY c.not_before
     LIMIT 20
"""


def silent_chats(conn: apsw.Connection, now_ms: int) -> list[SilentChat]:
    """Twenty of them at most, the soonest first."""
    return [SilentChat(*row) for row in rows(conn, _SILENT, {"now": now_ms})]


class Waiting(NamedTuple):
    """How the open messages stand.

    *planned*: for a later instant. *paused*: of an agent that is paused. *retrying*: after a failed attempt. *due*: the
    others. *oldest_ms*: since when the oldest of those that are not planned waits (one that was planned, since it was
    due), and its agent.
    """

    total: int
    planned: int
    paused: int
    retrying: int
    due: int
    running: int
    oldest_ms: int | None
    oldest_agent: str | None


_IS_DELAYED = "messages INDEXED BY messages_delayed WHERE process_after IS NOT NULL AND status = 'pending'"
_IS_OPEN = "messages INDEXED BY messages_open WHERE trigger = 1 AND (status = 'pending' OR status = 'processing')"
# The index has the sessions of an agent one after the other, and in each what runs, and then what waits by its id. So a
# session's first row is looked up among the delayed ones, and not each of its rows.
_OPEN = f"""
    WITH delayed AS MATERIALIZED (SELECT id FROM {_IS_DELAYED})
    SELECT agent, sum(iif(status = 'pending', number, 0)), sum(number),
           min(iif(first NOT IN (SELECT id FROM delayed),
                   first,
                   (SELECT min(id)
                      FROM {_IS_OPEN} AND agent = s.agent AND session_id = s.session_id AND status = 'pending'
                       AND id NOT IN (SELECT id FROM delayed)))) FILTER (WHERE status = 'pending')
      FROM (SELECT agent, session_id, status, count(*) AS number, min(id) AS first
              FROM {_IS_OPEN}
             GROUP BY agent, session_id, status) s
     GROUP BY agent
"""
_LATER = """
    SELECT agent, count(*) FILTER (WHERE failure IS NULL), count(*) FILTER (WHERE failure IS NOT NULL)
      FROM messages INDEXED BY messages_delayed
     WHERE process_after > :now AND process_after IS NOT NULL AND status = 'pending' AND trigger = 1
     GROUP BY agent
"""
_OLDEST = f"""
    SELECT iif(failure IS NULL, process_after, max(created_at, ifnull(scheduled_at, 0))), agent
      FROM {_IS_DELAYED} AND trigger = 1 AND (process_after <= :now OR failure IS NOT NULL)
     UNION ALL
    SELECT created_at, agent FROM messages WHERE id = :first
     ORDER BY 1
     LIMIT 1
"""


def waiting(conn: apsw.Connection, paused: set[str], now_ms: int) -> Waiting:
    """*paused*: the agents that are."""
    pending, running, held, planned, retried = 0, 0, 0, 0, 0
    later = {agent: counts for agent, *counts in rows(conn, _LATER, {"now": now_ms})}
    by_agent = rows(conn, _OPEN)
    for agent, of_agent, is_open, _ in by_agent:
        soon, again = later.get(agent, (0, 0))
        pending, running, planned = pending + of_agent, running + is_open - of_agent, planned + soon
        held += of_agent - soon if agent in paused else 0
        retried += 0 if agent in paused else again
    first = min((first for *_, first in by_agent if first is not None), default=None)
    oldest = rows(conn, _OLDEST, {"now": now_ms, "first": first})
    return Waiting(
        pending,
        planned,
        held,
        retried,
        pending - planned - held - retried,
        running,
        *(oldest[0] if oldest else (None, None)),
    )


MOST_COUNTED = 1000
_FOR_AGENT = """
    SELECT count(*)
      FROM (SELECT 1
              FROM messages INDEXED BY messages_open
             WHERE agent = :agent AND trigger = 1 AND (status = 'pending' OR status = 'processing')
               AND status = 'pending' AND ifnull(process_after, 0) <= :now
             LIMIT :most + 1)
"""


def waiting_for(conn: apsw.Connection, agent: str, now_ms: int) -> int:
    """How many messages wait for the agent now; one more than ``MOST_COUNTED`` means that there are more."""
    found: int = scalar(conn, _FOR_AGENT, {"agent": agent, "now": now_ms, "most": MOST_COUNTED})
    return found


def open_answers(conn: apsw.Connection) -> int:
    """How many answers are on their way to a platform or to a client."""
    found: int = scalar(conn, "SELECT count(*) FROM responses WHERE status = 'pending' OR status = 'delivering'")
    return found


def pending_approvals(conn: apsw.Connection) -> int:
    """How many requests wait for a yes or no."""
    found: int = scalar(conn, "SELECT count(*) FROM approvals WHERE status = 'pending'")
    return found
