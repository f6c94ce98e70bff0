"""Rate limits: a token bucket for each key, stored as the instant at which it is full again, and that of the last take.

A clock that is set back lets no time pass: the bucket is no emptier than the last take left it.

Tokens come back evenly: at 60 a minute one each second. After a rest a *burst* may be taken at once.

Beside it a key may have a bucket of bytes, for things that have a size. Its instant is in microseconds, because a short
text takes less than a millisecond of most limits.
"""

import json
from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows

_MINUTE_MS = 60_000
_MINUTE_US = 1000 * _MINUTE_MS


class RateResult(NamedTuple):
    """Whether a token was taken; if not, whether this is the minute's first refusal, and when there is room again.

    Attributes:
        again_at: in ms UTC, with the first refusal only; None where there will never be room for so large a thing.
        lacks_size: there was a token, but no room for the size.
    """

    allowed: bool
    is_first_refusal: bool = False
    again_at: int | None = None
    lacks_size: bool = False


class Allowance(NamedTuple):
    """A limit in milliseconds: the time in which one token comes back, and that in which the whole burst does."""

    interval_ms: int
    room_ms: int


class Size(NamedTuple):
    """How large a thing is, and how much may come in a minute, at once if need be; both in bytes."""

    amount: int
    per_minute: int

    @property
    def fits(self) -> bool:
        """Whether there can be room for it at all."""
        return self.amount <= self.per_minute

    @property
    def takes_us(self) -> int:
        """The time in which so much room comes back, in microseconds, rounded up."""
        return -(-_MINUTE_US * self.amount // self.per_minute)


def key(*parts: str) -> str:
    """The key for *parts*, such as ``("sender", channel, sender_id)``; different parts never make the same key."""
    return json.dumps(parts)


def allowance(per_minute: float, burst: int) -> Allowance:
    """The limit in milliseconds, right within half of one. Pure."""
    interval_ms = max(1, round(_MINUTE_MS / per_minute))
    return Allowance(interval_ms, interval_ms * max(1, burst))


# By how much the clock was set back since the last take; 0 where it was not.
_BACK = "max(ifnull(taken_at, 0) - :now, 0)"

# A token is left if the bucket would be full again within the time of a whole burst. Without one, nothing is written
# and no row comes back.
TAKE = f"""
    INSERT INTO rates (key, full_at, taken_at)
    VALUES (:key, :now + :interval, :now)
    ON CONFLICT (key) DO UPDATE
       SET full_at = max(full_at - {_BACK}, :now) + :interval, size_full_at_us = size_full_at_us - {_BACK} * 1000,
           taken_at = :now
     WHERE max(full_at - {_BACK}, :now) + :interval <= :now + :room
    RETURNING 1
"""  # noqa: S608

# The same for a thing that has a size: both buckets have room, or nothing is taken from either.
TAKE_SIZED = f"""
    INSERT INTO rates (key, full_at, size_full_at_us, taken_at)
    VALUES (:key, :now + :interval, :now * 1000 + :takes, :now)
    ON CONFLICT (key) DO UPDATE
       SET full_at = max(full_at - {_BACK}, :now) + :interval,
           size_full_at_us = max(ifnull(size_full_at_us, 0) - {_BACK} * 1000, :now * 1000) + :takes,
           taken_at = :now
     WHERE max(full_at - {_BACK}, :now) + :interval <= :now + :room
       AND max(ifnull(size_full_at_us, 0) - {_BACK} * 1000, :now * 1000) + :takes <= (:now + :minute) * 1000
    RETURNING 1
"""  # noqa: S608

# Before a refusal: from now on time passes again for the bucket.
_SET_BACK = f"""
    UPDATE rates
       SET full_at = full_at - {_BACK}, size_full_at_us = size_full_at_us - {_BACK} * 1000, taken_at = :now
     WHERE key = :key AND taken_at > :now
"""  # noqa: S608

# The first refusal of a minute. The min: a bucket is never emptier than empty; a later instant comes from a limit that
# was lower. A key that had no row is one of a thing that is too large.
TELL = """
    INSERT INTO rates (key, full_at, told_at)
    VALUES (:key, :now, :now)
    ON CONFLICT (key) DO UPDATE
       SET told_at = :now, full_at = min(full_at, :now + :room),
           size_full_at_us = min(size_full_at_us, (:now + :minute) * 1000)
     WHERE told_at IS NULL OR told_at NOT BETWEEN :now - :minute + 1 AND :now
    RETURNING full_at, ifnull(size_full_at_us, 0)
"""


def take(
    conn: apsw.Connection, key: str, *, per_minute: float, burst: int, size: Size | None = None, now_ms: int
) -> RateResult:
    """Take a token, if one is left. The first refusal of each minute is marked, so that it is said once.

    Args:
        key: from ``key()``.
        per_minute: may be less than one: a third is one in three minutes.
        size: of the thing that takes the token; there has to be room for it too.
    """
    interval_ms, room_ms = allowance(per_minute, burst)
    limits = {"key": key, "now": now_ms, "interval": interval_ms, "room": room_ms}
    if size is None:
        is_taken = bool(rows(conn, TAKE, limits))
    elif size.fits:
        is_taken = bool(rows(conn, TAKE_SIZED, {**limits, "takes": size.takes_us, "minute": _MINUTE_MS}))
    else:
        is_taken = False
    if is_taken:
        return RateResult(allowed=True)
    return _refuse(conn, key, Allowance(interval_ms, room_ms), size, now_ms=now_ms)


def _refuse(conn: apsw.Connection, key: str, limit: Allowance, size: Size | None, *, now_ms: int) -> RateResult:
    """What lacks room, and whether that is to be said."""
    interval_ms, room_ms = limit
    conn.execute(_SET_BACK, {"key": key, "now": now_ms})
    lacks_size = size is not None and not (size.fits and _lacks_token(conn, key, limit, now_ms=now_ms))
    told = rows(conn, TELL, {"key": key, "now": now_ms, "room": room_ms, "minute": _MINUTE_MS})
    if not told:
        return RateResult(allowed=False, lacks_size=lacks_size)
    full_at, size_full_at_us = told[0]
    again_at: int | None = full_at + interval_ms - room_ms
    if size is not None and lacks_size:
        again_at = -(-(size_full_at_us + size.takes_us) // 1000) - _MINUTE_MS if size.fits else None
    return RateResult(allowed=False, is_first_refusal=True, again_at=again_at, lacks_size=lacks_size)


def _lacks_token(conn: apsw.Connection, key: str, limit: Allowance, *, now_ms: int) -> bool:
    found = rows(conn, "SELECT full_at FROM rates WHERE key = :key", {"key": key})
    full_at = max(found[0][0], now_ms) if found else now_ms
    return bool(full_at + limit.interval_ms > now_ms + limit.room_ms)


def forget(conn: apsw.Connection, key: str) -> None:
    """Fill the bucket at once."""
    conn.execute("DELETE FROM rates WHERE key = :key", {"key": key})


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete up to *limit* keys whose buckets have been full since before *older_than_ms*; how many.

    An unknown key has a full bucket, so nothing is lost.
    """
    conn.execute(
        """
        DELETE FROM rates
         WHERE key IN (SELECT key
                         FROM rates
                        WHERE full_at < :cutoff AND ifnull(size_full_at_us, 0) < :cutoff * 1000
                        LIMIT :limit)
        """,
        {"cutoff": older_than_ms, "limit": limit},
    )
    return conn.changes()
