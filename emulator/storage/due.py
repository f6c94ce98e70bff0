"""What the rows say of time: whether anything is left to do now, and when something becomes due."""

import apsw

from shared.db.engine.connection import scalar
from shared.db.queue.schedules.message_series import MESSAGES
from shared.db.queue.schedules.response_series import RESPONSES

# What somebody has to do first is left out: an answer that a client fetches, and what waits behind a pause. So is what
# waits for a platform that failed, until it is asked again.
IDLE = """
    SELECT NOT EXISTS (SELECT 1 FROM messages WHERE status = 'processing')
       AND NOT EXISTS (SELECT 1 FROM messages m
                        WHERE m.status = 'pending' AND m.trigger = 1 AND coalesce(m.process_after, 0) <= :now
                          AND NOT EXISTS (SELECT 1 FROM agent_pauses p WHERE p.agent = m.agent AND p.state = 'paused'))
       AND NOT EXISTS (SELECT 1 FROM responses WHERE status = 'delivering')
       AND NOT EXISTS (SELECT 1 FROM responses r JOIN chats c ON c.id = r.chat_id
                        WHERE r.status = 'pending' AND coalesce(r.deliver_after, 0) <= :now AND c.status = 'active'
                          AND NOT EXISTS (SELECT 1 FROM channel_pauses p WHERE p.channel = r.channel)
                          AND NOT EXISTS (SELECT 1 FROM channel_outages o
                                           WHERE o.channel = r.channel AND o.probe_at > :now))
"""
_INSTANTS = (
    "process_after FROM messages WHERE status = 'pending'",
    "gathers_until FROM messages WHERE status = 'pending'",
    "deliver_after FROM responses WHERE status = 'pending'",
    "until FROM agent_pauses",
    "check_at FROM agent_pauses",
    "check_at FROM channel_pauses",
    "probe_at FROM channel_outages",
    "due_at FROM albums WHERE status = 'gathering'",
)
_DEADLINES = (
    "expires_at FROM approvals WHERE status = 'pending'",
    "expires_at FROM questions WHERE status = 'open'",
    "expires_at FROM pairings WHERE status = 'open'",
)
_NEWEST = """
    SELECT max(at) FROM (
        SELECT (SELECT created_at FROM events ORDER BY id DESC LIMIT 1) AS at
         UNION ALL
        SELECT (SELECT created_at FROM messages ORDER BY id DESC LIMIT 1)
    )
"""


def is_idle(conn: apsw.Connection, *, now_ms: int) -> bool:
    """Whether nothing is under way, and nothing is due that Postroom can do."""
    return bool(scalar(conn, IDLE, {"now": now_ms}))


def next_due(conn: apsw.Connection, *, now_ms: int) -> int | None:
    """When a message, an answer or a question to a platform becomes due, or a deadline is over; in ms UTC."""
    return _soonest(conn, _INSTANTS + _DEADLINES, now_ms)


def next_deadline(conn: apsw.Connection, *, now_ms: int) -> int | None:
    """When a deadline is over that ``sweep`` looks at."""
    return _soonest(conn, _DEADLINES, now_ms)


def is_planned(conn: apsw.Connection) -> bool:
    """Whether the next run of each schedule is planned whose last one has ended."""
    return not any(series.finished(conn, limit=1) for series in (MESSAGES, RESPONSES))


def newest(conn: apsw.Connection) -> int | None:
    """The instant of the newest row, in ms UTC; None: there are no rows of any instant."""
    found: int | None = scalar(conn, _NEWEST)
    return found


def _soonest(conn: apsw.Connection, instants: tuple[str, ...], now_ms: int) -> int | None:
    parts = (each.partition(" ") for each in instants)
    each_first = (f"SELECT min({name}) AS at {rest}{_and(rest)} {name} > :now" for name, _, rest in parts)
    found: int | None = scalar(conn, f"SELECT min(at) FROM ({' UNION ALL '.join(each_first)})", {"now": now_ms})  # noqa: S608
    return found


def _and(rest: str) -> str:
    return " AND" if " WHERE " in rest else " WHERE"
