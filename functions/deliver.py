"""``deliver``: claims the oldest due response of each chat, sends it through its channel, and acknowledges.

It works on a kick, on its tick (``POST /tick``: 202), and when something becomes due. One deliver works on a database.

What ``content`` of a response may say, beside the ``context`` and ``asked_at`` of the event that it answers:

* ``buttons``: ``[[label, token], ...]``, under its last part;
* ``edits``: the message that it replaces, buttons and all: its id on the platform, or, as a number, the
  ``responses.id`` of a response of ours, of which the last part is meant; what is not known any more is sent anew;
* ``click``: the ``context`` of the press of a button that it answers. With ``edits`` the press is acknowledged and the
  message changed; without, it is said to who pressed and to nobody else, as far as the platform can.
"""

import asyncio
import os
import secrets
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import apsw
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.responses import Response as Reply

from shared.channels import registry
from shared.channels.base import Channel, Outgoing, Part
from shared.core import clock, logs
from shared.core.errors import ClaimLost, ConfigInvalid, OutcomeUnknown, PermanentError, PostroomError, RetryableError
from shared.core.settings import Settings
from shared.db.engine.connection import open_connection
from shared.db.engine.group_commit import Writer
from shared.db.queue import responses
from shared.db.queue.responses import Response
from shared.queue import deliveries
from shared.queue.deliveries import Policy, Sending
from shared.runtime import framework
from shared.runtime.app import Handled, Held, check_tick, function_app
from shared.runtime.http_client import Client, HttpClient
from shared.runtime.kick import Kicker
from shared.runtime.worker import Backlog, Worker

log = logs.get()

T = TypeVar("T")
Parts = tuple[str | None, ...]

_LEASE_SHARE = 0.6  # of the lease that one send may take; the rest is for writing down what came of it
_LONGEST_SEND_S = 60.0
_WRITE_PAUSES_S = (0.1, 0.5, 2.0, *[5.0] * 100)  # a full disk, or a lock that lasts: as long as a lease does


class Deliver:
    """What the function holds between requests: the worker loop, the writing thread, one HTTP client for all sends."""

    def __init__(self, settings: Settings, client: Client | None = None) -> None:
        self.settings = settings
        self.writer = Writer(settings.db)
        self.reader = open_connection(settings.db, readonly=True)
        self.kicker = Kicker(settings.sockets)
        self.client: Client = client or HttpClient()
        self.worker = Worker(
            "deliver", db=settings.db, sockets=settings.sockets, repair=self.repair, step=self.claim_and_start
        )
        self._channels = _configured()
        self._backlogs = {name: Backlog(partial(self._look, name)) for name in self._channels}
        self._chats: set[int] = set()  # to which a send is under way here
        self._is_stopped = False

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
            if heads := self._backlogs[name].take(room, now_ms=now_ms):
                for sending in await self._claimed(heads):
                    room -= 1
                    self._chats.add(sending.response.chat_id)
                    self.worker.start(self.deliver(channel, sending))
            dues.append(responses.next_due(self.reader, name, now_ms=now_ms))
        soonest = min((due for due in dues if due is not None), default=None)
        return None if soonest is None else max(0.0, (soonest - clock.now_ms()) / 1000)

    async def _claimed(self, heads: list[int]) -> list[Sending]:
        try:
            return await self.writer.run(partial(self._claim, heads=heads))
        except asyncio.CancelledError:
            self._is_stopped = True
            raise

    def _look(self, channel: str, now_ms: int) -> list[int]:
        return responses.heads(self.reader, channel, now_ms=now_ms, held=self._chats)

    def _claim(self, conn: apsw.Connection, heads: list[int]) -> list[Sending]:
        if self._is_stopped:
            return []  # nobody waits for them any more: they would seem to be under way, with an unknown outcome
        token = f"send_{os.getpid()}_{secrets.token_hex(6)}"
        now_ms = clock.now_ms()  # not before: the lease must not run while we wait for the lock
        lease_ms = self.settings.lease_ms
        claims = (deliveries.claim(conn, head, token=token, now_ms=now_ms, lease_ms=lease_ms) for head in heads)
        return [claim for claim in claims if claim is not None]

    async def deliver(self, channel: Channel, sending: Sending) -> None:
        """Send what is left of one response, part by part, and write down what became of it."""
        response = sending.response
        context = {"channel": response.channel, "response_id": response.id, "message_id": response.message_id}
        try:
            sent = await self._take_out(channel, sending)
        except ClaimLost as error:
            log.warning("deliver.lost", reason=str(error), **context)
            return
        except apsw.Error:
            raise  # sent or not, it can't be written down: the lease runs out, and the outcome is unknown
        except Exception as error:  # the batch boundary: the row remembers, the others go on
            if not isinstance(error, PostroomError):
                log.exception("deliver.failed", **context)
                error = PermanentError(f"the channel failed: {type(error).__name__}")
            verdict = await self._write(partial(self._fail, response=response, error=error))
            log.warning("deliver.dead" if verdict.dead else "deliver.retry", reason=verdict.reason, **context)
        else:
            log.info("deliver.sent" if sent else "deliver.chat_opened", parts=sent, **context)
        finally:
            # Not before: a send that lost its lease (the machine slept) is under way until it ends.
            self._chats.discard(response.chat_id)
        self.kicker.kick("api")

    async def _take_out(self, channel: Channel, sending: Sending) -> int:
        """Send it, or first do what has to be done for that; how many parts have gone out."""
        response = sending.response
        if response.is_inactive:
            raise PermanentError(
                "its chat is inactive: retired or set so by hand, or the bot was blocked there or taken out"
            )
        if response.opens_for is None:
            return await self._send_parts(channel, sending)
        try:
            async with asyncio.timeout(self._limit_s):
                platform_id = await channel.open_direct(response.opens_for, self.client)
        except TimeoutError:
            raise RetryableError(f"the direct chat was not opened within {self._limit_s:g} s") from None
        await self._write(partial(self._opened, response=response, platform_id=platform_id))
        return 0

    async def _send_parts(self, channel: Channel, sending: Sending) -> int:
        response = sending.response
        parts = channel.render(response.message)
        if not parts:
            raise PermanentError("there is nothing in it that the platform could show")
        sent = response.parts
        for index in range(len(sent), len(parts)):
            if index > len(response.parts):  # the claim began the first of them
                await self._write(partial(self._part_sent, response=response, sent=sent))
            sent = (*sent, await self._send(channel, parts[index], sending.outgoing(index, of=len(parts))))
        await self._write(partial(self._acknowledge, response=response, sent=sent))
        return len(sent)

    async def _send(self, channel: Channel, part: Part, to: Outgoing) -> str | None:
        """Send one part within its lease: whoever takes the response over must not find us still sending."""
        try:
            async with asyncio.timeout(self._limit_s):
                return await channel.send(part, to, self.client, now_ms=clock.now_ms())
        except TimeoutError:
            raise OutcomeUnknown(f"no outcome within {self._limit_s:g} s") from None

    @property
    def _limit_s(self) -> float:
        return min(self.settings.lease_ms / 1000 * _LEASE_SHARE, _LONGEST_SEND_S)

    def _opened(self, conn: apsw.Connection, response: Response, platform_id: str) -> None:
        deliveries.opened(conn, response, platform_id, now_ms=clock.now_ms())

    def _part_sent(self, conn: apsw.Connection, response: Response, sent: Parts) -> None:
        responses.part_sent(conn, response, sent, lease_until=clock.now_ms() + self.settings.lease_ms)

    def _acknowledge(self, conn: apsw.Connection, response: Response, sent: Parts) -> None:
        deliveries.acknowledge(conn, response, sent, now_ms=clock.now_ms())

    def _fail(self, conn: apsw.Connection, response: Response, error: Exception) -> responses.Verdict:
        return deliveries.fail(conn, response, error, Policy.of(self.settings), now_ms=clock.now_ms())

    async def _write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Write, durably; tried again for long if the database can't be written: what was sent can't be unsent.

        Nobody but us knows that it was. If we give up, it is sent once more, or given up as if it was not.
        """
        for pause in _WRITE_PAUSES_S:
            try:
                return await self.writer.run(work)
            except apsw.Error:
                log.exception("deliver.not_written", again_in_s=pause)
                await asyncio.sleep(pause)
        return await self.writer.run(work)

    async def close(self) -> None:
        await self.worker.stop()
        await self.client.close()
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


_held = Held(lambda: Deliver(Settings.load()), lambda service: service.worker.begin())
lifespan = _held.lifespan


async def _tick(request: Request) -> Reply:
    service = _held.get()
    check_tick(request, service.settings.tick_secret)
    service.worker.begin()
    service.worker.wake()
    return JSONResponse({"running": service.worker.running}, status_code=202)


_app = function_app("deliver", [], tick=_tick)


@framework.http
async def deliver(_: Request) -> Reply:
    """The handler: ``/tick`` and ``/healthz``."""
    return Handled(_app)
