"""Asks each platform, when that is due, what is registered for our bots; ``channel_watch`` says what that means."""

import asyncio
from functools import partial

import apsw

from shared.channels.base import Channel, Registration
from shared.conversation.access import channel_watch
from shared.core import logs
from shared.core.errors import NotPossible, PostroomError, TokenRefused
from shared.core.settings import Settings
from shared.db.engine.connection import open_connection
from shared.db.engine.group_commit import Writer
from shared.db.platforms import channel_outages, channel_pauses, channel_watches
from shared.queue.platforms import pacing, pauses
from shared.roster.served_accounts import ServedAccounts
from shared.runtime.http1_client import HttpClient
from shared.runtime.http_client import Client

log = logs.get()

LIMIT_S = 10.0  # of one question; all are asked at once


class RegistrationLooks:
    """The looks of one process; it has a connection to read with, made at the first look."""

    def __init__(self, settings: Settings, writer: Writer, client: Client | None = None) -> None:
        self._settings = settings
        self._writer = writer
        self._http = client
        self._reader: apsw.Connection | None = None
        self._client: Client | None = None
        self._accounts = ServedAccounts(settings)

    async def look(self, *, now_ms: int) -> list[str]:
        """Look at every account whose look is due; the names of those that are deaf now. Never raises."""
        try:
            due = self._due(now_ms)
            return [name for name in await asyncio.gather(*(self._one(each, now_ms) for each in due)) if name]
        except Exception:  # the batch boundary: sweep's other work goes on
            log.exception("watch.failed")
            return []

    def _due(self, now_ms: int) -> list[Channel]:
        """A channel that is paused or whose platform can't work is asked by ``deliver``."""
        if self._reader is None:
            self._reader = open_connection(self._settings.db, readonly=True)
        last = channel_watches.every(self._reader)
        silent = {*channel_pauses.every(self._reader), *channel_outages.every(self._reader)}
        found = self._accounts.look(self._reader)
        return [
            channel
            for name, channel in found.items()
            if name not in silent and channel_watch.is_due(last.get(name), now_ms=now_ms)
        ]

    async def _one(self, channel: Channel, now_ms: int) -> str | None:
        try:
            async with asyncio.timeout(LIMIT_S):
                found = await channel.registration(self._paced())
        except NotPossible:
            return None
        except TokenRefused as error:
            await self._writer.run(partial(_pause, channel=channel.name, error=error, now_ms=now_ms))
            return None
        except (PostroomError, TimeoutError) as error:
            log.info("watch.not_answered", channel=channel.name, reason=str(error) or "no answer in time")
            return None
        except Exception:  # the batch boundary: a bug in one adapter leaves the other channels their looks
            log.exception("watch.failed", channel=channel.name)
            return None
        return await self._note(channel.name, found, now_ms)

    async def _note(self, channel: str, found: Registration, now_ms: int) -> str | None:
        watch = await self._writer.run(partial(channel_watch.note, channel=channel, found=found, now_ms=now_ms))
        if watch.state == "well":
            return None
        if watch.since == now_ms:
            log.error("watch.deaf", channel=channel, code=watch.code, reason=watch.reason)
        return channel

    def _paced(self) -> Client:
        if self._client is None:
            assert self._reader is not None  # noqa: S101 - a look is due only where it was read
            self._client = pacing.paced_over(self._http or HttpClient(), self._reader, self._writer)
        return self._client

    async def close(self) -> None:
        """Let go of the connections."""
        if self._client is not None:
            await self._client.close()
        if self._reader is not None:
            self._reader.close()


def _pause(conn: apsw.Connection, channel: str, error: TokenRefused, now_ms: int) -> None:
    if pauses.pause(conn, channel, error, now_ms=now_ms):
        log.error("watch.channel_paused", channel=channel, reason=str(error))
        channel_watch.tell_paused(conn, channel, str(error), now_ms=now_ms)
