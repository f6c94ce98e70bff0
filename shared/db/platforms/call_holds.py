"""The waits that platforms asked for, by scope; the buckets that they named; and the calls that they refused.

A wait only ever grows: of two answers about the same scope, the later instant stays. A row from an instant that is
still to come was written by a clock that was ahead: it says nothing.
"""

from typing import NamedTuple

import apsw

from shared.core.call_scopes import LimitHold, Scope
from shared.db.engine.connection import rows, scalar

WINDOW_MINUTES = 10  # in which a platform counts the calls that it refused
SAFE_REFUSALS = 1000  # of the 10,000 for which Discord blocks an address
_MINUTE_MS = 60_000


class CallHold(NamedTuple):
    """A row of ``call_holds``; both instants in ms UTC. *channel* is empty for the scope ``address``."""

    channel: str
    scope: Scope
    not_before: int
    held_at: int
    reason: str


_ACTIVE = """
    SELECT channel, scope, key, not_before, held_at, reason
      FROM call_holds
     WHERE (channel = :channel OR channel = '') AND not_before > :now AND held_at <= :now
"""


def active(conn: apsw.Connection, channel: str, *, now_ms: int) -> list[CallHold]:
    """The waits of the account, and those of all accounts on this machine, that are not over."""
    found = rows(conn, _ACTIVE, {"channel": channel, "now": now_ms})
    return [CallHold(account, Scope(kind, key), *rest) for account, kind, key, *rest in found]


def every(conn: apsw.Connection, *, now_ms: int) -> list[CallHold]:
    """All waits that are not over, for people."""
    found = rows(
        conn,
        """
        SELECT channel, scope, key, not_before, held_at, reason
          FROM call_holds
         WHERE not_before > :now AND held_at <= :now
         ORDER BY channel, scope, key
        """,
        {"now": now_ms},
    )
    return [CallHold(account, Scope(kind, key), *rest) for account, kind, key, *rest in found]


def hold(conn: apsw.Connection, channel: str, asked: LimitHold, *, now_ms: int) -> None:
    """Keep one wait."""
    conn.execute(
        """
        INSERT INTO call_holds (channel, scope, key, not_before, held_at, reason)
        VALUES (:channel, :scope, :key, :not_before, :now, :reason)
        ON CONFLICT (channel, scope, key)
        DO UPDATE SET not_before = iif(held_at > excluded.held_at, excluded.not_before,
                                       max(not_before, excluded.not_before)),
                      held_at = excluded.held_at, reason = excluded.reason
        """,
        {
            "channel": "" if asked.scope.kind == "address" else channel,
            "scope": asked.scope.kind,
            "key": asked.scope.key,
            "not_before": now_ms + asked.wait_ms,
            "now": now_ms,
            "reason": asked.reason,
        },
    )


def others_held_since(conn: apsw.Connection, channel: str, scope: Scope, *, since_ms: int) -> bool:
    """Whether the platform asked for a wait of another scope of the same kind, at *since_ms* or later."""
    found = scalar(
        conn,
        """
        SELECT EXISTS (SELECT 1
                         FROM call_holds
                        WHERE channel = :channel AND scope = :scope AND key <> :key AND held_at >= :since)
        """,
        {"channel": channel, "scope": scope.kind, "key": scope.key, "since": since_ms},
    )
    return bool(found)


def bucket(conn: apsw.Connection, channel: str, method: str) -> str | None:
    """The platform's name of the bucket that counts the calls of this method, or None while it is unknown."""
    found: str | None = scalar(
        conn,
        "SELECT bucket FROM call_buckets WHERE channel = :channel AND method = :method",
        {"channel": channel, "method": method},
    )
    return found


def learn_bucket(conn: apsw.Connection, channel: str, method: str, name: str) -> None:
    """The platform counts the calls of this method in the bucket *name*."""
    conn.execute(
        """
        INSERT INTO call_buckets (channel, method, bucket)
        VALUES (:channel, :method, :name)
        ON CONFLICT (channel, method) DO UPDATE SET bucket = excluded.bucket
        """,
        {"channel": channel, "method": method, "name": name},
    )


def count_refusal(conn: apsw.Connection, platform: str, *, now_ms: int) -> int | None:
    """Count a call that the platform refused. The instant until which no call may go out, or None: there is room.

    The calls of all processes and accounts count together, because the platform counts by address.
    """
    minute = now_ms // _MINUTE_MS
    conn.execute(
        """
        INSERT INTO refused_calls (platform, minute, count)
        VALUES (:platform, :minute, 1)
        ON CONFLICT (platform, minute) DO UPDATE SET count = count + 1
        """,
        {"platform": platform, "minute": minute},
    )
    counts = rows(
        conn,
        """
        SELECT minute, count
          FROM refused_calls
         WHERE platform = :platform AND minute > :past AND minute <= :minute
         ORDER BY minute
        """,
        {"platform": platform, "past": minute - WINDOW_MINUTES, "minute": minute},
    )
    return room_again_at([(int(each), int(count)) for each, count in counts])


def room_again_at(counts: list[tuple[int, int]]) -> int | None:
    """When the refusals of the window are fewer than the safe number again; None: they are. Pure.

    Args:
        counts: minutes with the refusals in each, oldest first.
    """
    total = sum(count for _, count in counts)
    if total < SAFE_REFUSALS:
        return None
    for minute, count in counts:
        total -= count
        if total < SAFE_REFUSALS:
            return (minute + WINDOW_MINUTES) * _MINUTE_MS
    return None  # not reached: without any minute there is no refusal


def prune(conn: apsw.Connection, *, now_ms: int, limit: int) -> int:
    """Delete waits that are over for more than a window, and the refusals before it: how many rows."""
    past_ms = now_ms - WINDOW_MINUTES * _MINUTE_MS
    doomed = rows(
        conn,
        "SELECT channel, scope, key FROM call_holds WHERE not_before < :past LIMIT :limit",
        {"past": past_ms, "limit": limit},
    )
    conn.executemany("DELETE FROM call_holds WHERE channel = ? AND scope = ? AND key = ?", doomed)
    conn.execute("DELETE FROM refused_calls WHERE minute < :past", {"past": past_ms // _MINUTE_MS})
    return len(doomed)
