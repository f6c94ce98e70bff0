"""Reads events and exports their spans, a batch at a time. Nothing is open in the database while a collector is asked.

So the export never holds the write-ahead log, however slow the collector is, and what it costs the functions is a read
of a few pages that are in memory.
"""

from collections.abc import Awaitable, Callable, Sequence

import apsw

from infra.traces.cursor import Cursor
from infra.traces.span import TraceSpan
from infra.traces.tracer import Tracer
from shared.db.views.monitoring import traced
from shared.db.views.monitoring.traced import TracedCall, TurnUsage

EVENTS = 1000
FURTHEST_BACK = 100_000  # events that a start reads again for what was open

Send = Callable[[Sequence[TraceSpan]], Awaitable[None]]


class _Rows:
    """What rows say, each read apart."""

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn

    def made_at(self, row: str | int) -> int | None:
        return traced.made_at(self._conn, row)

    def usage(self, session: str, start_ms: int, end_ms: int) -> TurnUsage:
        return traced.usage(self._conn, session, start_ms=start_ms, end_ms=end_ms)

    def tool_calls(self, turn: str) -> list[TracedCall]:
        return traced.tool_calls(self._conn, turn)


class Export:
    """Exports the events after ``cursor.done``, in order.

    Args:
        conn: only reads.
        send: exports spans; an exception leaves them for the next ``step``.
        most: events that are read at once.
    """

    def __init__(self, conn: apsw.Connection, send: Send, cursor: Cursor, *, most: int = EVENTS) -> None:
        self._conn = conn
        self._send = send
        self._most = most
        self.cursor = cursor
        self._read = cursor.begin
        self._tracer = Tracer(_Rows(conn))
        self._unsent: list[TraceSpan] = []
        self._has_more = False

    async def step(self, last: int) -> bool:
        """Export one batch of events up to the id *last*, or the batch that was not sent. Whether there may be more."""
        if not self._unsent:
            self._read_batch(last)
        if self._unsent:
            await self._send(self._unsent)
            self._unsent = []
        done = max(self.cursor.done, self._read)
        begin = max(self._tracer.open_since(done), done - FURTHEST_BACK)
        self.cursor = self.cursor._replace(done=done, begin=begin)
        return self._has_more

    def _read_batch(self, last: int) -> None:
        found = traced.events(self._conn, after=self._read, last=last, limit=self._most)
        for event in found:
            spans = list(self._tracer.read(event))
            if event.id > self.cursor.done:
                self._unsent += spans
            self._read = event.id
        self._has_more = len(found) == self._most
