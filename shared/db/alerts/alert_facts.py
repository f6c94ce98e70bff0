"""What alerts are about, by agent and by channel, at a cost that no backlog and no history raises.

What waits is found by loose scans: one step for each session or chat with open rows. Of what is dead, the newest
``MOST_DEAD`` rows are looked at.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows
from shared.db.queue import ready_sessions
from shared.db.queue.responses.due import OPEN_CHATS

MOST_DEAD = 1000


class Stuck(NamedTuple):
    """What waits for too long of one agent or channel. *since*, *oldest*: of the one that waits longest, and its row.

    *places*: the conversations in which something waits.
    """

    name: str
    places: int
    since: int
    oldest: int


_WAITS = """
    SELECT CASE WHEN process_after IS NULL THEN created_at
                WHEN process_after <= :now THEN max(created_at, process_after)
                ELSE updated_at END AS since,
           id
      FROM messages
     WHERE id IN (SELECT value FROM json_each(:ids))
       AND (process_after >= :until OR (since <= :before AND ifnull(process_after, 0) <= :now))
"""


def messages(conn: apsw.Connection, *, longest_ms: int, now_ms: int) -> list[Stuck]:
    """By agent: sessions without a turn whose first message waits for longer, or must; not of agents that are paused.

    A message waits from the instant at which it was due. One that is tried again after such a wait waits too long.
    """
    found = []
    for agent, *_ in rows(conn, ready_sessions.READY_AGENTS):
        firsts = rows(conn, ready_sessions.FIRSTS, {"agent": agent, "now": now_ms})
        ids = [id_ for _, id_, is_running, *_ in firsts if not is_running]
        limits = {"now": now_ms, "before": now_ms - longest_ms, "until": now_ms + longest_ms}
        late = rows(conn, _WAITS, {"ids": json.dumps(ids), **limits})
        found += [Stuck(agent, len(late), *min(late))] if late else []
    return found


ANSWERS = f"""
    {OPEN_CHATS}
    SELECT max(head.created_at, ifnull(head.deliver_after, 0)) AS since, head.id
      FROM open
      JOIN chats c ON c.id = open.chat_id AND c.status = 'active'
      JOIN responses head
        ON head.id = (SELECT r.id
                        FROM responses r
                       WHERE r.channel = :channel AND r.chat_id = open.chat_id AND r.status = 'pending'
                         AND (r.deliver_after IS NULL OR r.deliver_after <= :now)
                       ORDER BY r.id
                       LIMIT 1)
     WHERE since <= :before
"""


def answers(conn: apsw.Connection, channels: Sequence[str], *, longest_ms: int, now_ms: int) -> list[Stuck]:
    """By channel: the chats whose oldest due answer waits for longer."""
    found = []
    for channel in channels:
        late = rows(conn, ANSWERS, {"channel": channel, "now": now_ms, "before": now_ms - longest_ms})
        found += [Stuck(channel, len(late), *min(late))] if late else []
    return found


class DeadRows(NamedTuple):
    """Rows of one agent that died of one cause. *since*: of the oldest that was looked at; *latest*: of the newest."""

    agent: str | None
    failure: str | None
    number: int
    since: int
    latest: int


DEAD_MESSAGES = f"""
    SELECT agent, failure, count(*), min(updated_at), max(updated_at)
      FROM (SELECT id, agent, failure, updated_at
              FROM messages
             WHERE status = 'dead'
             ORDER BY id DESC
             LIMIT {MOST_DEAD})
     GROUP BY agent, failure
"""
DEAD_ANSWERS = f"""
    SELECT agent, failure, count(*), min(created_at), max(created_at)
      FROM (SELECT id, agent, failure, created_at
              FROM responses
             WHERE status = 'dead' AND coalesce(failure, '') NOT IN ('not_fetched', 'called_off')
             ORDER BY id DESC
             LIMIT {MOST_DEAD})
     GROUP BY agent, failure
"""


def dead_messages(conn: apsw.Connection) -> list[DeadRows]:
    """The newest dead messages, by agent and cause."""
    return [DeadRows(*row) for row in rows(conn, DEAD_MESSAGES)]


def dead_answers(conn: apsw.Connection) -> list[DeadRows]:
    """The newest dead answers, by agent and cause, without those that need nobody."""
    return [DeadRows(*row) for row in rows(conn, DEAD_ANSWERS)]


class WaitingPost(NamedTuple):
    """An alert that waits for the webhook."""

    id: int
    message_id: str
    text: str
    created_at: int


WAITING_POSTS = """
    SELECT r.id, r.message_id, r.message, r.created_at
      FROM chats c
      JOIN responses r ON r.channel = c.channel AND r.chat_id = c.id AND r.status = 'pending'
     WHERE c.channel = :channel AND c.platform_id = :place
     ORDER BY r.id
     LIMIT :limit
"""


def waiting_posts(conn: apsw.Connection, channel: str, place: str, *, limit: int) -> list[WaitingPost]:
    """The alerts that wait in the chat of the webhook, oldest first; nothing that another client has to fetch."""
    found = rows(conn, WAITING_POSTS, {"channel": channel, "place": place, "limit": limit})
    return [WaitingPost(*row) for row in found]
