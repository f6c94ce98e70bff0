"""Epochs: each history of the database, which begins with a restore, gives out no id that an earlier one gave out.

Rows that a lost disk took with it had ids that clients may still hold. A client that acknowledges the number of such a
response must not hit another one, whose person would then never get it. A reader that names such an event as its last
one must not miss the events that came instead. So each epoch begins both far beyond all that may have been given out
since the last event that is known. Another epoch may have followed that one, whose rows are all lost; so the time since
then counts.
"""

import apsw

from shared.db.engine import meta
from shared.db.engine.connection import scalar

STEP = 1_000_000
"""Ids that are left out at least: clocks of two machines differ."""

PER_MS = 100
"""Ids that are left out for each millisecond since the last known event. Five events a message, at the 3,400 messages a
second that two cores take, are 17.
"""

BEGAN = "epoch_began"

_NUMBERED = "numbered_epoch"  # in meta: the epoch whose ids have begun

# As the newest response that an operator deleted: no list shows it, and the next deletion removes the row. Until then
# it makes the next response's number greater than its own.
_SKIP_RESPONSES = """
    INSERT INTO responses (id, message_id, channel, sender, message, status, created_at)
    SELECT ifnull(max(id), 0) + :skipped, 'restored', 'api', '', '', 'deleted', :now
      FROM responses
"""
_SKIP_EVENTS = """
    INSERT INTO events (id, type, data, created_at)
    SELECT ifnull(max(id), 0) + :skipped, :type, json_object('after', ifnull(max(id), 0)), :now
      FROM events
"""


def name(conn: apsw.Connection, epoch: str) -> None:
    """Another history goes on from here; the next start begins its ids, also in rows of an earlier release."""
    if meta.get(conn, _NUMBERED) is None:
        meta.put(conn, _NUMBERED, meta.get(conn, "epoch") or "")
    meta.put(conn, "epoch", epoch)


def begin(conn: apsw.Connection, *, now_ms: int) -> None:
    """Skip ids if this history has just begun; nothing in a database's first one, and nothing a second time."""
    epoch, before = meta.get(conn, "epoch"), meta.get(conn, _NUMBERED)
    if epoch is None or epoch == before:
        return
    if before is not None:
        known_ms = scalar(conn, "SELECT created_at FROM events ORDER BY id DESC LIMIT 1") or meta.began_at(conn)
        skipped = STEP + PER_MS * max(0, now_ms - known_ms)
        conn.execute(_SKIP_RESPONSES, {"skipped": skipped, "now": now_ms})
        conn.execute(_SKIP_EVENTS, {"skipped": skipped, "type": BEGAN, "now": now_ms})
    meta.put(conn, _NUMBERED, epoch)
