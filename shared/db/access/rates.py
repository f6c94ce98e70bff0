"""How much of what is allowed somebody has used: for each key one number, when all of it is there again.

What is allowed comes back evenly: at 60 a minute one each second, and after a rest a *burst* may go at once.
"""

import json
from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows

_MINUTE_MS = 60_000


class RateResult(NamedTuple):
    """Whether one may be taken; if not, whether this is the first refusal of the minute, and from when on it may."""

    allowed: bool
    is_first_refusal: bool = False
    again_at: int | None = None  # ms UTC; told with the first refusal only


class Allowance(NamedTuple):
    """The same in milliseconds: how long one takes to come back, and how long all of them."""

    interval_ms: int
    room_ms: int


def key(*parts: str) -> str:
    """The key of what *parts* name, such as ``("sender", channel, sender_id)``; no part can pretend to be two."""
    return json.dumps(parts)


def allowance(per_minute: float, burst: int) -> Allowance:
    """What *per_minute*, of which *burst* may come at once, is in milliseconds. Pure; right within half of one."""
    interval_ms = max(1, round(_MINUTE_MS / per_minute))
    return Allowance(interval_ms, interval_ms * max(1, burst))


# One more fits if all would be there again within the time that all of them take. If it does not, nothing is written,
# and no row comes back.
TAKE = """
    INSERT INTO rates (key, full_at)
    VALUES (:key, :now + :interval)
    ON CONFLICT (key) DO UPDATE
       SET full_at = max(full_at, :now) + :interval
     WHERE max(full_at, :now) + :interval <= :now + :room
    RETURNING 1
"""


def take(conn: apsw.Connection, key: str, *, per_minute: float, burst: int, now_ms: int) -> RateResult:
    """Use one up, if one is there. The first refusal of each minute is told apart, so that it is said once.

    Args:
        key: made by ``key()``.
        per_minute: may be less than one: a third is one in three minutes.
    """
    interval_ms, room_ms = allowance(per_minute, burst)
    limits = {"key": key, "now": now_ms, "interval": interval_ms, "room": room_ms}
    if rows(conn, TAKE, limits):
        return RateResult(allowed=True)
    # The min: nobody can have used more than all; an instant beyond that is of a clock that went ahead.
    told = rows(
        conn,
        """
        UPDATE rates
           SET told_at = :now, full_at = min(full_at, :now + :room)
         WHERE key = :key AND (told_at IS NULL OR told_at NOT BETWEEN :now - :minute + 1 AND :now)
        RETURNING full_at
        """,
        {"key": key, "now": now_ms, "room": room_ms, "minute": _MINUTE_MS},
    )
    if not told:
        return RateResult(allowed=False)
    return RateResult(allowed=False, is_first_refusal=True, again_at=told[0][0] + interval_ms - room_ms)


def forget(conn: apsw.Connection, key: str) -> None:
    """All of it is there again, at once."""
    conn.execute("DELETE FROM rates WHERE key = :key", {"key": key})


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Forget up to *limit* keys of which all is there again since before *older_than_ms*; how many.

    A key that is unknown has all of it, so nothing is lost a minute afterwards.
    """
    conn.execute(
        "DELETE FROM rates WHERE key IN (SELECT key FROM rates WHERE full_at < :cutoff LIMIT :limit)",
        {"cutoff": older_than_ms, "limit": limit},
    )
    return conn.changes()
