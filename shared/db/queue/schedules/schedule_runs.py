"""Schedule runs: the instants at which each occurrence of a series was due and was first claimed. Append-only."""

from typing import Literal

import apsw

from shared.db.engine.connection import scalar

RECENT = 20  # of a series: a retry finds its own occurrence among them

_INSERT = """
    WITH occurrence AS (SELECT * FROM {table} WHERE id = :row AND scheduled_at IS NOT NULL),
         recent AS (SELECT message_id, due_at
                      FROM schedule_runs
                     WHERE series_id = (SELECT series_id FROM occurrence)
                     ORDER BY id DESC
                     LIMIT :recent)
    INSERT INTO schedule_runs (series_id, message_id, due_at, started_at, recurrence, timezone, made_at,
                               previous_due_at)
    SELECT series_id, message_id, scheduled_at, :now, recurrence, timezone,
           -- One that was too late got its instant when that was noted.
           max(created_at, ifnull((SELECT max(m.noted_at)
                                     FROM missed_runs m
                                    WHERE m.series_id = occurrence.series_id
                                      AND m.message_id = occurrence.message_id), 0)),
           (SELECT max(due_at) FROM recent WHERE due_at <= scheduled_at)
      FROM occurrence
     WHERE series_id IS NOT NULL AND message_id NOT IN (SELECT message_id FROM recent)
"""
_INSERTS = {table: _INSERT.format(table=table) for table in ("messages", "responses")}

_HAS_BEGUN = """
    SELECT :message IN (SELECT message_id
                          FROM schedule_runs
                         WHERE series_id = :series
                         ORDER BY id DESC
                         LIMIT :recent)
"""

_PRUNE = """
    DELETE FROM schedule_runs
     WHERE id IN (SELECT id
                    FROM (SELECT id, started_at
                            FROM schedule_runs
                           WHERE id < (SELECT max(id) FROM schedule_runs)
                           ORDER BY id
                           LIMIT :limit)
                   WHERE started_at < :cutoff)
"""


def begin(conn: apsw.Connection, table: Literal["messages", "responses"], row_id: int, *, now_ms: int) -> None:
    """Record that an occurrence was claimed; a retry keeps the instant of its first claim."""
    conn.execute(_INSERTS[table], {"row": row_id, "now": now_ms, "recent": RECENT})


def has_begun(conn: apsw.Connection, series_id: str, message_id: str) -> bool:
    """Whether this occurrence was claimed before."""
    return bool(scalar(conn, _HAS_BEGUN, {"series": series_id, "message": message_id, "recent": RECENT}))


def last_start(conn: apsw.Connection, series_id: str) -> int | None:
    """When the newest occurrence of the series that began was first claimed, in ms UTC; None: none has begun."""
    found: int | None = scalar(
        conn,
        "SELECT started_at FROM schedule_runs WHERE series_id = :series ORDER BY id DESC LIMIT 1",
        {"series": series_id},
    )
    return found


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete rows from before *older_than_ms*, of the *limit* oldest; returns how many. The newest row stays."""
    conn.execute(_PRUNE, {"cutoff": older_than_ms, "limit": limit})
    return conn.changes()
