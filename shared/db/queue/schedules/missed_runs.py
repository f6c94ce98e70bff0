"""Missed runs: the instants of a series that have no run of their own, and why. Append-only.

=============  ==============================================================
``too_late``   it could not begin in time: the schedule's ``grace`` had passed
``coalesced``  another run, late or long, replaced it
``ended``      it was due and had not begun when the series was cancelled
=============  ==============================================================
"""

from typing import Literal, NamedTuple

import apsw

from shared.db.engine.columns import bound, listed
from shared.db.engine.connection import rows

MissedReason = Literal["too_late", "coalesced", "ended"]


class MissedRuns(NamedTuple):
    """Instants of a series: *due_at*, and those of its grid before *until_at*; None: the first alone.

    *message_id*: of the occurrence that was planned, or of the one that ran in their place.
    """

    series_id: str
    message_id: str
    due_at: int
    until_at: int | None
    recurrence: str | None
    timezone: str | None
    reason: MissedReason
    noted_at: int


_COLUMNS = listed(MissedRuns._fields)
_INSERT = f"""
    INSERT INTO missed_runs ({_COLUMNS})
    VALUES ({bound(MissedRuns._fields)})
"""  # noqa: S608
_NEWEST = f"""
    SELECT {_COLUMNS}
      FROM missed_runs
     WHERE series_id = :series
     ORDER BY id DESC
     LIMIT :limit
"""  # noqa: S608
_PRUNE = """
    DELETE FROM missed_runs
     WHERE id IN (SELECT id
                    FROM (SELECT id, noted_at
                            FROM missed_runs
                           WHERE id < (SELECT max(id) FROM missed_runs)
                           ORDER BY id
                           LIMIT :limit)
                   WHERE noted_at < :cutoff)
"""


def note(conn: apsw.Connection, missed: MissedRuns) -> None:
    """Record them."""
    conn.execute(_INSERT, missed._asdict())


def newest(conn: apsw.Connection, series_id: str, *, limit: int) -> list[MissedRuns]:
    """Those of the series that were noted last, newest first."""
    return [MissedRuns(*row) for row in rows(conn, _NEWEST, {"series": series_id, "limit": limit})]


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete rows from before *older_than_ms*, of the *limit* oldest; returns how many. The newest row stays."""
    conn.execute(_PRUNE, {"cutoff": older_than_ms, "limit": limit})
    return conn.changes()
