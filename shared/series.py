"""Series: every occurrence that ended hands over to the next, in the transaction in which it ended, or by the tick.

A series whose schedule can't be used (any more) ends with an event; it never stands in the way of a settlement.
"""

from typing import Protocol

import apsw

from shared.db import message_series, responses
from shared.db.occurrence import Finished
from shared.errors import ConfigInvalid
from shared.schedule import successor

_BATCH = 100


class _Table(Protocol):
    """A table whose rows may recur: ``messages`` or ``responses``."""

    def finished_occurrences(self, conn: apsw.Connection, *, limit: int) -> list[Finished]: ...
    def hand_on(self, conn: apsw.Connection, finished: Finished, *, due_ms: int, now_ms: int) -> object: ...
    def end_series(self, conn: apsw.Connection, finished: Finished, reason: str, *, now_ms: int) -> None: ...


def advance_messages(conn: apsw.Connection, *, now_ms: int) -> int:
    """Insert the next occurrence of each message series whose last one ended; how many. Safe to call at any time."""
    return _advance(message_series, conn, now_ms)


def advance_responses(conn: apsw.Connection, *, now_ms: int) -> int:
    """The same for responses."""
    return _advance(responses, conn, now_ms)


def _advance(table: _Table, conn: apsw.Connection, now_ms: int) -> int:
    finished = table.finished_occurrences(conn, limit=_BATCH)
    for each in finished:
        try:
            due_ms = successor(
                each.recurrence, each.timezone, each.misfire, scheduled_ms=each.scheduled_at, now_ms=now_ms
            )
            table.hand_on(conn, each, due_ms=due_ms, now_ms=now_ms)
        except ConfigInvalid as error:
            table.end_series(conn, each, str(error), now_ms=now_ms)
    return len(finished)
