"""What ``api`` holds between requests: connections to read with, the writing thread, who waits for news."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

import apsw

from shared.channels import registry
from shared.core import clock
from shared.core.settings import Settings
from shared.db.engine.connection import open_connection
from shared.replica.sync import API, Replication
from shared.rest.http.background_reads import Aside
from shared.rest.live.feed import Feed
from shared.rest.live.unfetched_responses import Reminders
from shared.runtime.kick import Listener
from shared.runtime.service import FunctionService

T = TypeVar("T")

_LOOK_EVERY_S = 1.0  # what a lost kick costs whoever waits


class Service(FunctionService):
    """One per process; everything in it but the writer, and what is read aside, belongs to the event loop's thread."""

    def __init__(self, settings: Settings) -> None:
        self.replication = Replication(settings, registry.NAMES)  # first: it may refuse the settings
        super().__init__(settings)
        self.started_at = clock.now_ms()
        self.reader = open_connection(settings.db, readonly=True)
        self.aside = Aside(settings.db)
        self.feed = Feed(self.reader, self.news)
        self.reminders = Reminders(self.reader, self.feed)
        self._listener: Listener | None = None
        self._news = asyncio.Event()

    def begin(self) -> None:
        """Be woken by kicks."""
        self._listener = Listener(self.settings.sockets, "api")
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._kicked)

    def _kicked(self) -> None:
        if self._listener is not None:
            self._listener.drain()
        self.announce()

    def announce(self) -> None:
        """Wake everybody who waits for news."""
        self._news.set()
        self._news = asyncio.Event()

    async def news(self, timeout_s: float) -> None:
        """Return when something may have happened, or after *timeout_s*."""
        # Not wait_for: when the event comes in the same instant as a cancellation, that forgets the cancellation.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(timeout_s, _LOOK_EVERY_S)):
                await self._news.wait()

    async def change(self, work: Callable[[apsw.Connection], T], *kicks: str) -> T:
        """Do *work* in a transaction; when it is committed, tell whoever listens as one of *kicks*, and readers here.

        Returns what *work* returned, once it may be acknowledged: on the disk, or in the replica, as it is set.

        Raises:
            NotReplicated: it is committed, and not (yet) in the replica.
        """
        done = await self.writer.run(work)
        self.kick(*kicks)
        self.announce()
        await self.confirm()
        return done

    async def confirm(self) -> None:
        """Return when what is committed may be acknowledged.

        Raises:
            NotReplicated: it is not (yet) in the replica.
        """
        await self.replication.confirm(API)

    async def close(self) -> None:
        self.reminders.close()
        await self.feed.close()
        await self.replication.close()
        self.announce()
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
        await super().close()
        self.reader.close()
