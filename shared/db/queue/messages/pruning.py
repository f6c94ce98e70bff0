"""Deletes messages that ended long ago."""

import json

import apsw

from shared.db.engine.connection import rows, scalar
from shared.db.queue import event_keys
from shared.db.queue.walks import old_rows_follow

_PRUNABLE = """
    SELECT id, created_at < :cutoff,
           (status = 'completed' OR status = 'cancelled') AND recurrence IS NULL AND updated_at < :cutoff
               AND (from_agent IS NULL OR status = 'cancelled' OR updated_at < :mail_cutoff)
      FROM messages
     WHERE id > :after AND id < (SELECT max(id) FROM messages)
     ORDER BY id
     LIMIT :limit
"""

# The newest completed messages between agents stay, however old.
_OLDEST_KEPT_MAIL = """
    SELECT updated_at
      FROM messages
     WHERE from_agent IS NOT NULL AND status = 'completed'
     ORDER BY updated_at DESC
     LIMIT 1 OFFSET :kept
"""

_KEPT_MAIL = 1000


def prune(
    conn: apsw.Connection, *, after_id: int, older_than_ms: int, limit: int, forgotten_ms: int = 0
) -> tuple[int, int]:
    """Look at up to *limit* rows after *after_id*, and delete those that ended before *older_than_ms*.

    Walking by id needs no index on the status of ten million finished rows. Ids grow with time, so the walk ends where
    no row is old enough. The newest row stays, so that an id is never used twice, and so do the newest thousand
    messages between agents. What makes a late copy known stays in ``event_keys``.

    Args:
        forgotten_ms: of messages that came before this instant, nothing is kept.

    Returns:
        How many were deleted, and the id after which to go on (0: the end was reached, begin again).
    """
    mail_cutoff = scalar(conn, _OLDEST_KEPT_MAIL, {"kept": _KEPT_MAIL - 1}) or 0
    found = rows(
        conn, _PRUNABLE, {"after": after_id, "cutoff": older_than_ms, "mail_cutoff": mail_cutoff, "limit": limit}
    )
    doomed = [id_ for id_, _, is_over in found if is_over]
    event_keys.keep(conn, doomed, forgotten_ms=forgotten_ms)
    conn.execute("DELETE FROM messages WHERE id IN (SELECT value FROM json_each(:ids))", {"ids": json.dumps(doomed)})
    if len(found) < limit:
        return len(doomed), 0
    last, *_ = found[-1]
    if any(is_old for _, is_old, _ in found) or old_rows_follow(
        conn, "messages", after_id=last, older_than_ms=older_than_ms
    ):
        return len(doomed), last
    return len(doomed), 0
