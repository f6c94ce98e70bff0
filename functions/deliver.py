"""``deliver``: claims the oldest due response of each chat, sends it through its channel, and acknowledges.

It works on a kick, on its tick (``POST /tick``: 202), and when something becomes due. One deliver works on a database.
"""

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import apsw
import functions_framework.aio
import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from shared import clock, deliveries, logs
from shared.channels import registry
from shared.channels.base import Channel, Outgoing
from shared.db import responses
from shared.db.connection import open_connection
from shared.db.writer import Writer
from shared.deliveries import Policy
from shared.errors import ClaimLost, ConfigInvalid, PermanentError, PostroomError
from shared.kick import Kicker
from shared.serving import Handled, Held, check_tick, function_app
from shared.settings import Settings
from shared.worker import Worker

log = logs.get()

_TIMEOUT = httpx.Timeout(connect=5.0, read=30.0, write=30.0, pool=5.0)


class Deliver:
    """What the function holds between requests: the worker loop, the writing thread, one HTTP client for all sends."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.writer = Writer(settings.db)
        self.reader = open_connection(settings.db, readonly=True)
        self.kicker = Kicker(settings.sockets)
        self.client = httpx.AsyncClient(timeout=_TIMEOUT, follow_redirects=False, trust_env=False)
        self.worker = Worker(
            "deliver", db=settings.db, sockets=settings.sockets, repair=self.repair, step=self.claim_and_start
        )
        self._channels = _configured()

    async def repair(self) -> None:
        """We hold the lock, so whoever was sending is gone: nobody knows what came of it, and policy decides."""
        now_ms = clock.now_ms()
        for name in self._channels:
            rescue = partial(
                deliveries.rescue, channel=name, policy=Policy.of(self.settings), now_ms=now_ms, everything=True
            )
            if lost := await self.writer.run(rescue):
                log.warning("deliver.rescued", channel=name, responses=lost)

    async def claim_and_start(self) -> float | None:
        """Claim the head of each chat, as far as there is room, and send it; the seconds until more becomes due."""
        now_ms = clock.now_ms()
        room = self.settings.max_concurrent_sends - self.worker.running
        dues = []
        for name, channel in self._channels.items():
            if room > 0 and (heads := responses.heads(self.reader, name, now_ms=now_ms)[:room]):
                for response in await self.writer.run(partial(self._claim, heads=heads, now_ms=now_ms)):
                    room -= 1
                    self.worker.start(self.deliver(channel, response))
            dues.append(responses.next_due(self.reader, name, now_ms=now_ms))
        soonest = min((due for due in dues if due is not None), default=None)
        return None if soonest is None else max(0.0, (soonest - clock.now_ms()) / 1000)

    def _claim(self, conn: apsw.Connection, heads: list[int], now_ms: int) -> list[responses.Response]:
        token = f"send_{os.getpid()}_{secrets.token_hex(6)}"
        lease_ms = self.settings.lease_ms
        claims = (responses.claim(conn, head, token=token, now_ms=now_ms, lease_ms=lease_ms) for head in heads)
        return [claim for claim in claims if claim is not None]

    async def deliver(self, channel: Channel, response: responses.Response) -> None:
        """Send what is left of one response, part by part, and write down what became of it."""
        context = {"channel": response.channel, "response_id": response.id, "message_id": response.message_id}
        try:
            sent = await self._send_parts(channel, response)
        except ClaimLost as error:
            log.warning("deliver.lost", reason=str(error), **context)
            return
        except Exception as error:  # the batch boundary: the row remembers, the others go on
            if not isinstance(error, PostroomError):
                log.exception("deliver.failed", **context)
                error = PermanentError(f"the channel failed: {type(error).__name__}")
            verdict = await self.writer.run(
                partial(
                    deliveries.fail,
                    response=response,
                    error=error,
                    policy=Policy.of(self.settings),
                    now_ms=clock.now_ms(),
                )
            )
            log.warning("deliver.dead" if verdict.dead else "deliver.retry", reason=verdict.reason, **context)
        else:
            log.info("deliver.sent", parts=sent, **context)
        self.kicker.kick("api")

    async def _send_parts(self, channel: Channel, response: responses.Response) -> int:
        parts = channel.render(response.message)
        if not parts:
            raise PermanentError("there is nothing in it that the platform could show")
        sent = list(response.parts)
        for index in range(len(sent), len(parts)):
            to = Outgoing(
                response_id=response.id,
                part_index=index,
                platform_id=response.platform_id,
                thread_id=response.thread_id,
                reply_to=response.content.get("reply_to"),
                context=response.content.get("context") or {},
                asked_at_ms=response.content.get("asked_at", response.created_at),
                is_first=index == 0,
            )
            sent.append(await channel.send(parts[index], to, self.client, now_ms=clock.now_ms()))
            done = tuple(sent)
            if index + 1 < len(parts):
                until = clock.now_ms() + self.settings.lease_ms
                await self.writer.run(partial(responses.part_sent, response=response, parts=done, lease_until=until))
            else:
                await self.writer.run(
                    partial(deliveries.acknowledge, response=response, parts=done, now_ms=clock.now_ms())
                )
        return len(parts)

    async def close(self) -> None:
        await self.worker.stop()
        await self.client.aclose()
        self.writer.close()
        self.reader.close()
        self.kicker.close()


def _configured() -> dict[str, Channel]:
    """The channels that have their settings. The others' responses wait, and the log says what is missing."""
    found = {}
    for name in registry.NAMES:
        try:
            found[name] = registry.get(name)
        except ConfigInvalid as error:
            log.warning("deliver.channel_off", channel=name, reason=str(error))
    return found


_held = Held(lambda: Deliver(Settings.load()))


async def _tick(request: Request) -> Response:
    service = _held.get()
    check_tick(request, service.settings.tick_secret)
    service.worker.begin()
    service.worker.wake()
    return JSONResponse({"running": service.worker.running}, status_code=202)


_app = function_app("deliver", [], tick=_tick)


@functions_framework.aio.http
async def deliver(_: Request) -> Response:
    """The handler: ``/tick`` and ``/healthz``."""
    return Handled(_app)


@asynccontextmanager
async def lifespan(_: ASGIApp) -> AsyncIterator[None]:
    """Work from the start, not only from the first tick."""
    service = _held.get()
    service.worker.begin()
    try:
        yield
    finally:
        await service.close()
        _held.drop()
