"""Rate limits: a token bucket for each key, stored as one number, the instant at which it is full again.

Tokens come back evenly: at 60 a minute one each second. After a rest a *burst* may be taken at once.
"""

import json
from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows

_MINUTE_MS = 60_000


class RateResult(NamedTuple):
    """Whether a token was taken; if not, whether this is the minute's first refusal, and when one is back."""

    allowed: bool
    is_first_refusal: bool = False
    again_at: int | None = None  # ms UTC; only with the first refusal


class Allowance(NamedTuple):
    """A limit in milliseconds: the time in which one token comes back, and that in which the whole burst does."""

    interval_ms: int
    room_ms: int


def key(*parts: str) -> str:
    """The key for *parts*, such as ``("sender", channel, sender_id)``; different parts never make the same key."""
    return json.dumps(parts)


def allowance(per_minute: float, burst: int) -> Allowance:
    """The limit in milliseconds, right within half of one. Pure."""
    interval_ms = max(1, round(_MINUTE_MS / per_minute))
    return Allowance(interval_ms, interval_ms * max(1, burst))


# A token is left if the bucket would be full again within the time of a whole burst. Without one, nothing is written
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
    """Take a token, if one is left. The first refusal of each minute is marked, so that it is said once.

    Args:
        key: from ``key()``.
        per_minute: may be less than one: a third is one in three minutes.
    """
    interval_ms, room_ms = allowance(per_minute, burst)
    limits = {"key": key, "now": now_ms, "interval": interval_ms, "room": room_ms}
    if rows(conn, TAKE, limits):
        return RateResult(allowed=True)
    # The min: a bucket is never emptier than empty; a later instant comes from a clock that was ahead.
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
    """Fill the bucket at once."""
    conn.execute("DELETE FROM rates WHERE key = :key", {"key": key})


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete up to *limit* keys whose buckets have been full since before *older_than_ms*; how many.

    An unknown key has a full bucket, so nothing is lost.
    """
    conn.execute(
        "DELETE FROM rates WHERE key IN (SELECT key FROM rates WHERE full_at < :cutoff LIMIT :limit)",
        {"cutoff": older_than_ms, "limit": limit},
    )
    return conn.changes()
