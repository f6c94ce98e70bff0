"""The event feed: one tail of ``events`` for all readers of this process. Each row is read and rendered once.

The newest batches stay in memory. A reader that is further behind reads the rows itself, in batches of its own, until
it has caught up. So a slow reader costs time of its own and no memory. Ids only grow; the position of a reader is the
id of the last row that it received in full.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import apsw

from shared.core import logs
from shared.db.queue import events
from shared.rest.live import frames
from shared.rest.live.shared_task import SharedTask

log = logs.get()

_PACE_S = 0.02  # between two batches: events of the meantime go to all readers in one piece
_ERROR_PAUSE_S = 1.0
_COMMENT = b": still here\n\n"
_MOST_UNSTORED = 100  # frames without a row that are kept for readers that have not read them yet


@dataclass(frozen=True)
class EventBatch:
    """All events with an id above *after*, up to *last*, in order."""

    after: int
    rows: tuple[frames.EventFrames, ...]

    @property
    def last(self) -> int:
        return self.rows[-1].id

    @cached_property
    def whole(self) -> bytes:
        """All frames of all rows."""
        return b"".join(row.frames() for row in self.rows)

    def since(self, last: int, names: Collection[str] | None) -> bytes:
        """The frames of the rows after *last*; with *names*, only the frames of these names."""
        if names is None and last <= self.after:
            return self.whole
        return b"".join(row.frames(names) for row in self.rows if row.id > last)


class EventFeed(SharedTask):
    """The tail, which runs while there are readers.

    Args:
        news: waits for the next event, for as many seconds at most.
        batch: how many rows one query reads.
        kept_bytes: how much of the newest frames stays in memory; the newest batch always does.
        comment_every_s: a silent stream gets a comment after this time, so that no proxy closes it.
    """

    def __init__(
        self,
        conn: apsw.Connection,
        news: Callable[[float], Awaitable[None]],
        *,
        batch: int = 500,
        kept_bytes: int = 4 * 1024 * 1024,
        comment_every_s: float = 15.0,
    ) -> None:
        super().__init__()
        self._conn = conn
        self._news = news
        self._batch = batch
        self._limit_bytes = kept_bytes
        self._comment_every_s = comment_every_s
        self._batches: deque[EventBatch] = deque()
        self._unstored: deque[frames.Frame] = deque(maxlen=_MOST_UNSTORED)
        self._unstored_count = 0  # of all that ever were
        self.kept_bytes = 0
        self._last = 0

    async def read(self, last: int, names: Collection[str] | None = None) -> AsyncGenerator[bytes, None]:
        """The events after the event *last*, as pieces of an event stream, until the feed closes."""
        self._join(last)
        try:
            loop = asyncio.get_running_loop()
            quiet_since, sent_id, unstored = loop.time(), last, self._unstored_count
            while not self._is_closed:
                if unstored < self._unstored_count:
                    piece, unstored = self._unstored_since(unstored, names), self._unstored_count
                    if piece:
                        yield piece
                    continue
                batch = self._batch_after(last)
                if batch is not None:
                    piece, last = batch.since(last, names), batch.last
                    if piece:
                        quiet_since, sent_id = loop.time(), last
                        yield piece
                    continue
                left_s = quiet_since + self._comment_every_s - loop.time()
                if left_s <= 0:
                    # The id lets a reader that comes back skip the events that its choice of names left out.
                    yield _COMMENT if sent_id == last else b"id: %d\n%s" % (last, _COMMENT)
                    quiet_since, sent_id = loop.time(), last
                else:
                    await self._growth(left_s)
        finally:
            self._leave()

    def send_unstored(self, found: Sequence[frames.Frame]) -> None:
        """Send frames that have no row to the readers of this moment. They have no id, so no reader gets them later."""
        self._unstored.extend(found)
        self._unstored_count += len(found)
        self._wake()

    def _unstored_since(self, count: int, names: Collection[str] | None) -> bytes:
        new = min(self._unstored_count - count, len(self._unstored))
        found = list(self._unstored)[len(self._unstored) - new :]
        return b"".join(text for name, text in found if names is None or name in names)

    def _batch_after(self, last: int) -> EventBatch | None:
        """The batch that holds the first event after *last*; None at the end."""
        if self._batches and last >= self._batches[0].after:
            return next((batch for batch in self._batches if batch.last > last), None)
        if last >= self._last:
            return None
        return self._load(last)

    def _load(self, last: int) -> EventBatch | None:
        found = events.after(self._conn, last, limit=self._batch)
        return EventBatch(last, tuple(frames.render(self._conn, found))) if found else None

    async def _growth(self, timeout_s: float) -> None:
        # Not wait_for: it forgets a cancellation that comes in the same instant as the event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._grown.wait()

    def _join(self, last: int) -> None:
        self.readers += 1
        if self._task is None and not self._is_closed:
            self._last = max(last, events.latest_id(self._conn))
            self._task = asyncio.create_task(self._tail(), name="feed")

    def _leave(self) -> None:
        super()._leave()
        if self.readers == 0:
            self._batches.clear()
            self.kept_bytes = 0

    async def _tail(self) -> None:
        while True:
            try:
                batch = self._load(self._last)
            except Exception:  # rows and readers are still there: try again
                log.exception("feed.not_read")
                await asyncio.sleep(_ERROR_PAUSE_S)
                continue
            if batch is None:
                await self._news(self._comment_every_s)
            else:
                self._keep(batch)
                self._wake()
                await asyncio.sleep(_PACE_S)

    def _keep(self, batch: EventBatch) -> None:
        self._batches.append(batch)
        self.kept_bytes += len(batch.whole)
        self._last = batch.last
        while self.kept_bytes > self._limit_bytes and len(self._batches) > 1:
            self.kept_bytes -= len(self._batches.popleft().whole)
