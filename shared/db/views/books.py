"""The books of a day: every accepted message stands in exactly one column, or the books say how many are missing.

What was accepted is told by the ids alone, which have no holes; what became of it by the rows. So a row that vanished
shows: an id has no row, and no operator deleted it.
"""

import apsw
from typing_extensions import TypedDict

from shared.db.engine.connection import rows, savepoint, scalar

LARGEST = 60_000  # rows: a longer day is counted from its newest ones


class Books(TypedDict):
    """*accepted* equals the sum of the others, and then the books *balance*. *since*: of the first message, ms UTC.

    *answered*: its turn ended well, also where the agent said nothing. *context*: asked for no answer. *waiting*: also
    planned and paused ones. *dropped*: refused before it became a message. *deleted*: by an operator.
    """

    since: int
    accepted: int
    answered: int
    context: int
    dead: int
    cancelled: int
    waiting: int
    running: int
    dropped: int
    deleted: int
    missing: int
    balance: bool


# Only what has a partial index is looked at by its state; the rest of what the ids hold is completed.
_COUNTS = """
    SELECT count(*), count(*) FILTER (WHERE trigger = 0 AND status <> 'dead')
      FROM messages
     WHERE id BETWEEN :first AND :last
"""
_DEAD = "SELECT count(*) FROM messages WHERE status = 'dead' AND id BETWEEN :first AND :last"
_RESTING = """
    SELECT count(*) FILTER (WHERE status = 'cancelled'), count(*) FILTER (WHERE status = 'paused')
      FROM messages
     WHERE (status = 'paused' OR status = 'cancelled') AND trigger = 1 AND id BETWEEN :first AND :last
"""
_OPEN = """
    SELECT count(*), count(*) FILTER (WHERE status = 'processing')
      FROM messages INDEXED BY messages_open
     WHERE (status = 'pending' OR status = 'processing') AND trigger = 1 AND id >= :first
"""
_DROPPED = "SELECT count(*) FROM dropped WHERE created_at >= :since"
_DELETED = "SELECT count(*) FROM events WHERE type = 'message_deleted' AND id >= :event"


def read(conn: apsw.Connection, since_ms: int) -> Books:
    """The books since *since_ms*, by the clock of the rows. One read transaction sees one state of all tables."""
    with savepoint(conn):
        last = scalar(conn, "SELECT max(id) FROM messages") or 0
        first = max(first_since(conn, "messages", since_ms), last - LARGEST + 1, 1)
        began = scalar(conn, "SELECT created_at FROM messages WHERE id = ?", (first,))
        began_ms = max(since_ms, began) if began is not None and first > 1 else since_ms
        ids = {"first": first, "last": last}
        ((found, context),) = rows(conn, _COUNTS, ids)
        ((dead,),) = rows(conn, _DEAD, ids)
        ((cancelled, paused),) = rows(conn, _RESTING, ids)
        ((is_open, running),) = rows(conn, _OPEN, {"first": first})
        dropped = scalar(conn, _DROPPED, {"since": began_ms})
        gone = max(0, last - first + 1) - found
        deleted = 0
        if gone:
            event = first_since(conn, "events", began_ms)
            deleted = min(gone, scalar(conn, _DELETED, {"event": event}))
    return {
        "since": began_ms,
        "accepted": found + gone + dropped,
        "answered": found - context - dead - cancelled - paused - is_open,
        "context": context,
        "dead": dead,
        "cancelled": cancelled,
        "waiting": is_open - running + paused,
        "running": running,
        "dropped": dropped,
        "deleted": deleted,
        "missing": gone - deleted,
        "balance": gone == deleted,
    }


def first_since(conn: apsw.Connection, table: str, since_ms: int, column: str = "created_at") -> int:
    """The lowest id of *table* whose row was made at *since_ms* or later; one past the last where there is none.

    Ids grow with the clock, so a few rows are read, however many there are. *column* has the instant.
    """
    low, high = 0, (scalar(conn, f"SELECT max(id) FROM {table}") or 0) + 1  # noqa: S608 - a table of ours
    while high - low > 1:
        middle = (low + high) // 2
        sql = f"SELECT id, {column} FROM {table} WHERE id >= ? ORDER BY id LIMIT 1"  # noqa: S608 - a table of ours
        found = rows(conn, sql, (middle,))
        if found and found[0][1] < since_ms and found[0][0] < high:
            low = found[0][0]
        else:
            high = middle
    return high
