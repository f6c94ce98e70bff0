"""The numbers of responses, which clients acknowledge by: one that was given out names that response or nothing.

Rows that a lost disk took with it had numbers that clients may still hold. A client that acknowledges such a number
must not hit another response, whose person would then never get it. So each history (an epoch, which begins with a
restore) numbers its responses from far beyond the last one that is known.
"""

import apsw

from shared.db.engine import meta

STEP = 1_000_000
"""More responses than a replica can be behind: at a hundred a second, those of almost three hours."""

_NUMBERED = "numbered_epoch"  # in meta: the epoch whose numbers have begun

# As the newest response that an operator deleted: no list shows it, and the next deletion removes the row. Until then
# it makes the next response's number greater than its own.
_SKIP = """
    INSERT INTO responses (id, message_id, channel, sender, message, status, created_at)
    SELECT ifnull(max(id), 0) + :step, 'restored', 'api', '', '', 'deleted', :now
      FROM responses
    HAVING max(id) IS NOT NULL OR :before IS NOT NULL
"""


def begin_epoch(conn: apsw.Connection, *, now_ms: int) -> None:
    """Skip numbers if this history has just begun; nothing in a new database, and nothing a second time."""
    epoch = meta.get(conn, "epoch")
    before = meta.get(conn, _NUMBERED)
    if epoch is None or epoch == before:
        return
    conn.execute(_SKIP, {"step": STEP, "before": before, "now": now_ms})
    meta.put(conn, _NUMBERED, epoch)
