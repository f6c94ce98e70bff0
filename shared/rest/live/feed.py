"""One tail of ``events`` for all readers of this process: a row is read and put into words once, however many read it.

The newest batches stay in memory. A reader that is further behind than they reach reads the rows themselves, in batches
of its own, until it has caught up: so a slow reader costs itself time and nobody memory. Ids only grow, and a reader's
position is the id of the last row that it was given whole.
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

log = logs.get()

_PACE_S = 0.02  # between two batches: what happens meanwhile goes out in one piece to everybody
_ERROR_PAUSE_S = 1.0
_COMMENT = b": still here\n\n"
_MOST_REMINDERS = 100  # that are kept for readers that have not taken them yet


@dataclass(frozen=True)
class Batch:
    """What happened after the event *after*, in order; the ids between have no rows, or are in here."""

    after: int
    rows: tuple[frames.Row, ...]

    @property
    def last(self) -> int:
        return self.rows[-1].id

    @cached_property
    def whole(self) -> bytes:
        """All frames of all rows."""
        return b"".join(row.frames() for row in self.rows)

    def since(self, last: int, names: Collection[str] | None) -> bytes:
        """The frames of the rows after *last*; only those called one of *names*, if given."""
        if names is None and last <= self.after:
            return self.whole
        return b"".join(row.frames(names) for row in self.rows if row.id > last)


class Feed:
    """The tail, running while somebody reads. *news* returns when something may have happened.

    Args:
        batch: how many rows are read at once.
        kept_bytes: how much of the newest stays in memory; one batch always does.
        comment_every_s: of silence; keeps proxies from closing the stream.
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
        self._conn = conn
        self._news = news
        self._batch = batch
        self._limit_bytes = kept_bytes
        self._comment_every_s = comment_every_s
        self._batches: deque[Batch] = deque()
        self._reminders: deque[frames.Frame] = deque(maxlen=_MOST_REMINDERS)
        self._reminded = 0
        self.kept_bytes = 0
        self._last = 0
        self._grown = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self.readers = 0

    async def read(self, last: int, names: Collection[str] | None = None) -> AsyncGenerator[bytes, None]:
        """What happens after the event *last*, for ever, as pieces of an event stream; ends when the feed closes."""
        self._join(last)
        try:
            loop = asyncio.get_running_loop()
            quiet_since, told, reminded = loop.time(), last, self._reminded
            while not self._is_closed:
                if reminded < self._reminded:
                    piece, reminded = self._reminders_since(reminded, names), self._reminded
                    if piece:
                        yield piece
                    continue
                batch = self._following(last)
                if batch is not None:
                    piece, last = batch.since(last, names), batch.last
                    if piece:
                        quiet_since, told = loop.time(), last
                        yield piece
                    continue
                left_s = quiet_since + self._comment_every_s - loop.time()
                if left_s <= 0:
                    # What its names kept from the reader it need not be read again for when it comes back.
                    yield _COMMENT if told == last else b"id: %d\n%s" % (last, _COMMENT)
                    quiet_since, told = loop.time(), last
                else:
                    await self._growth(left_s)
        finally:
            self._leave()

    def remind(self, told: Sequence[frames.Frame]) -> None:
        """Tell whoever reads now, beside the rows: it keeps nobody's place, and who is not there misses it."""
        self._reminders.extend(told)
        self._reminded += len(told)
        self._wake()

    def _reminders_since(self, reminded: int, names: Collection[str] | None) -> bytes:
        new = min(self._reminded - reminded, len(self._reminders))
        found = list(self._reminders)[len(self._reminders) - new :]
        return b"".join(text for name, text in found if names is None or name in names)

    def _following(self, last: int) -> Batch | None:
        """The batch that goes on from *last*, or None at the end."""
        if self._batches and last >= self._batches[0].after:
            return next((batch for batch in self._batches if batch.last > last), None)
        if last >= self._last:
            return None
        return self._load(last)

    def _load(self, last: int) -> Batch | None:
        found = events.after(self._conn, last, limit=self._batch)
        return Batch(last, tuple(frames.render(self._conn, found))) if found else None

    async def _growth(self, timeout_s: float) -> None:
        # Not wait_for: when the event comes in the same instant as a cancellation, that forgets the cancellation.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._grown.wait()

    def _join(self, last: int) -> None:
        self.readers += 1
        if self._task is None and not self._is_closed:
            self._last = max(last, events.latest_id(self._conn))
            self._task = asyncio.create_task(self._tail(), name="feed")

    def _leave(self) -> None:
        self.readers -= 1
        if self.readers == 0 and self._task is not None:
            self._task.cancel()
            self._task = None
            self._batches.clear()
            self.kept_bytes = 0

    async def _tail(self) -> None:
        while True:
            try:
                batch = self._load(self._last)
            except Exception:  # the rows are there still, and so are the readers
                log.exception("feed.not_read")
                await asyncio.sleep(_ERROR_PAUSE_S)
                continue
            if batch is None:
                await self._news(self._comment_every_s)
            else:
                self._keep(batch)
                self._wake()
                await asyncio.sleep(_PACE_S)

    def _keep(self, batch: Batch) -> None:
        self._batches.append(batch)
        self.kept_bytes += len(batch.whole)
        self._last = batch.last
        while self.kept_bytes > self._limit_bytes and len(self._batches) > 1:
            self.kept_bytes -= len(self._batches.popleft().whole)

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    async def close(self) -> None:
        """Let every reader end."""
        self._is_closed = True
        self._wake()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
