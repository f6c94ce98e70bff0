"""Series: every occurrence that ended hands over to the next, in the transaction in which it ended, or by the tick.

A series whose schedule can't be used (any more) ends with an event; it never stands in the way of a settlement.
"""

from typing import Protocol

import apsw

from shared.db import messages, responses
from shared.errors import ConfigInvalid
from shared.schedule import successor

_BATCH = 100


class _Finished(Protocol):
    @property
    def recurrence(self) -> str: ...
    @property
    def timezone(self) -> str: ...
    @property
    def misfire(self) -> str: ...
    @property
    def scheduled_at(self) -> int: ...


def advance_messages(conn: apsw.Connection, *, now_ms: int) -> int:
    """Insert the next occurrence of each message series whose last one ended; how many. Safe to call at any time."""
    finished = messages.finished_occurrences(conn, limit=_BATCH)
    for each in finished:
        try:
            messages.hand_on(conn, each, due_ms=_due(each, now_ms), now_ms=now_ms)
        except ConfigInvalid as error:
            messages.end_series(conn, each, str(error), now_ms=now_ms)
    return len(finished)


def advance_responses(conn: apsw.Connection, *, now_ms: int) -> int:
    """The same for responses."""
    finished = responses.finished_occurrences(conn, limit=_BATCH)
    for each in finished:
        try:
            responses.hand_on(conn, each, due_ms=_due(each, now_ms), now_ms=now_ms)
        except ConfigInvalid as error:
            responses.end_series(conn, each, str(error), now_ms=now_ms)
    return len(finished)


def _due(finished: _Finished, now_ms: int) -> int:
    return successor(
        finished.recurrence, finished.timezone, finished.misfire, scheduled_ms=finished.scheduled_at, now_ms=now_ms
    )
