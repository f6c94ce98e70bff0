"""What ``api`` holds between requests: a connection to read, the event feed, and the requests that wait for news."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from shared.channels import registry
from shared.core import logs
from shared.core.settings import Settings
from shared.core.text import redaction
from shared.core.time import clock
from shared.db.engine import past
from shared.db.engine.connection import open_connection
from shared.db.replica.sync import API, Replication
from shared.db.spending.settled_usage import SettledUsage
from shared.rest.http.background_reads import BackgroundReads
from shared.rest.live.feed import EventFeed
from shared.rest.live.news import ChangeNews
from shared.rest.live.shared_read import SharedRead
from shared.rest.live.unfetched_responses import UnfetchedResponses
from shared.runtime import operator_token
from shared.runtime.kick import Listener
from shared.runtime.service import FunctionService

log = logs.get()

T = TypeVar("T")

_OVERVIEW_FRESH_MS = 2_000  # so long all open pages share one
_LOOK_EVERY_S = 1.0  # the longest that a request waits because of a lost kick


class Service(FunctionService):
    """One per process. All of it belongs to the event loop's thread, except the writer and the background reads."""

    def __init__(self, settings: Settings) -> None:
        self.replication = Replication(settings, registry.PLATFORMS)  # first: it may refuse the settings
        super().__init__(settings)
        self.operator_token = operator_token.read_or_make(settings.db)
        if self.operator_token is None:
            log.warning("api.token_unsafe", file=operator_token.path_of(settings.db).name)
        else:
            redaction.register(self.operator_token)
        self.started_at = clock.now_ms()
        self.polled_channels: set[str] = set()  # those that this process has noted in the database
        self.reader = open_connection(settings.db, readonly=True)
        self.background_reads = BackgroundReads(settings.db)
        self.settled_usage = SettledUsage()
        self.overview: SharedRead[Any] = SharedRead(_OVERVIEW_FRESH_MS)
        self.feed = EventFeed(self.reader, self.news)
        self.changes = ChangeNews(self.reader, self.news, lambda: self.background_reads.spent_s)
        self.unfetched_responses = UnfetchedResponses(self.reader, self.feed)
        self._listener: Listener | None = None
        self._is_listening = False
        self._news = asyncio.Event()

    def now_ms(self) -> int:
        """The instant of which the operator's page tells, in ms UTC: now, or that of a copy of the past."""
        return past.now_ms(self.past)

    def begin(self) -> None:
        """Take kicks."""
        self._listener = Listener(self.settings.sockets, "api")

    def _listen(self) -> None:
        """Read the next kick, or one that has come already. While nothing waits for news, kicks wake no one."""
        if self._listener is not None and not self._is_listening:
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._on_kick, self._listener)
            self._is_listening = True

    def _on_kick(self, listener: Listener) -> None:
        asyncio.get_running_loop().remove_reader(listener.fileno())
        self._is_listening = False
        listener.drain()
        self.announce()

    def announce(self) -> None:
        """Wake the requests that wait for news."""
        self._news.set()
        self._news = asyncio.Event()

    async def news(self, timeout_s: float) -> None:
        """Wait for an event, *timeout_s* at most. It may return without one."""
        self._listen()
        # Not wait_for: it forgets a cancellation that comes in the same instant as the event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(timeout_s, _LOOK_EVERY_S)):
                await self._news.wait()

    async def change(self, work: Callable[[apsw.Connection], T], *kicks: str) -> T:
        """Run *work* in a transaction, then wake the functions named by *kicks* and the readers of this process.

        Returns:
            What *work* returned, as soon as the change may be acknowledged: when it is on the disk or, with
            ``durability = "replicated"``, in the replica.

        Raises:
            NotReplicated: the change is committed, but not known to be in the replica.
        """
        done = await self.writer.run(work)
        self.overview.expire()
        self.kick(*kicks)
        self.announce()
        await self.confirm()
        return done

    async def confirm(self) -> None:
        """Wait until everything that is committed may be acknowledged.

        Raises:
            NotReplicated: it is not known to be in the replica.
        """
        await self.replication.confirm(API)

    async def close(self) -> None:
        self.unfetched_responses.close()
        self.background_reads.close()
        await self.feed.close()
        await self.changes.close()
        await self.replication.close()
        self.announce()
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None  # a request that still waits then waits for no kick
        await super().close()
        self.reader.close()
