"""``deliver``: claims the oldest due response of each chat, sends it through its channel, and acknowledges.

It works on a kick, on its tick (``POST /tick``: 202), and when something becomes due. One deliver works on a database.
Where ``POSTROOM_DURABILITY`` says so, each part is sent when the replica has what is known of the parts before it, and
the claim. A machine that takes over then knows of every part that may have begun. While the replica can't be reached,
one response at a time tries it: the channels that do not wait for it have the room.
"""

import contextlib
import os
from functools import partial

import apsw
from starlette.requests import Request
from starlette.responses import Response as Reply

from shared.channels import registry
from shared.channels.base import Channel
from shared.conversation.delivery.outcomes import write_durably
from shared.conversation.delivery.platform_questions import PlatformQuestions
from shared.conversation.delivery.sender import Sender
from shared.core import chance, logs
from shared.core.errors import OF_ONE_ROW, ClaimLost, NotReplicated
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import savepoint
from shared.db.platforms import channel_outages, channel_pauses
from shared.db.queue import responses
from shared.db.replica.sync import Replication
from shared.queue import deliveries
from shared.queue.deliveries import Sending
from shared.queue.delivery_verdicts import DeliveryPolicy
from shared.queue.platforms import pacing
from shared.queue.platforms.fair_heads import FairHeads
from shared.queue.platforms.send_room import SendRoom
from shared.roster.served_accounts import ServedAccounts
from shared.runtime import framework
from shared.runtime.app import AppResponse, function_app, tick_route
from shared.runtime.http_client import Client
from shared.runtime.service import LazyService
from shared.runtime.worker import Backlog
from shared.runtime.worker_service import WorkerService, wake

log = logs.get()

_REPLICA_PAUSE_MS = 1000  # after a claim did not reach the replica, before another one tries it


class Deliver(WorkerService):
    """Claims responses and sends them, all through one HTTP client."""

    def __init__(self, settings: Settings, client: Client | None = None) -> None:
        self.replication = Replication(settings, registry.PLATFORMS)  # first: it may refuse the settings
        super().__init__("deliver", settings)
        self._room = SendRoom() if settings.pace_sends else None
        self._heads = FairHeads(self.reader, self._room)
        self.client: Client = pacing.paced(self.outgoing(client), self, self._room)
        self._accounts = ServedAccounts(settings)
        self._backlogs: dict[str, Backlog[int]] = {}
        self._chats: set[int] = set()  # chats to which this process is sending
        self._confirming = 0  # sends that wait for the replica
        self._replica_again_at: int | None = None  # the replica did not answer: one send tries it then; ms UTC
        self.sender = Sender(self, self.client, self._confirm)
        self.questions = PlatformQuestions(self, self.client, self._try_one)

    async def repair(self) -> None:
        """Give up the sends of earlier processes, which are gone: their outcome is unknown, and policy decides."""
        now_ms = clock.now_ms()
        if self._room is not None:
            self._room.remember(self.reader)
        for name in self._accounts.look(self.reader):
            rescue = partial(
                deliveries.rescue, channel=name, policy=DeliveryPolicy.of(self.settings), now_ms=now_ms, everything=True
            )
            if lost := await self.writer.run(rescue):
                log.warning("deliver.rescued", channel=name, responses=lost)
        if pauses := channel_pauses.every(self.reader):
            for pause in pauses.values():
                log.warning("deliver.channel_is_paused", channel=pause.channel, reason=pause.reason)
            await self.writer.run(partial(channel_pauses.check_now, now_ms=now_ms))
        if channel_outages.every(self.reader):
            await self.writer.run(partial(channel_outages.probe_now, now_ms=now_ms))

    async def claim_and_start(self) -> float | None:
        """Claim the head of each chat, as far as there is room, and send it; the seconds until more is due."""
        now_ms = clock.now_ms()
        room = self.settings.max_concurrent_sends - self.worker.running
        dues: list[int | None] = []
        channels = self._accounts.look(self.reader)
        dues += [self.questions.set_up_when_due(each, channels, now_ms) for each in self._accounts.set_ups]
        stopped = self.questions.stopped(channels, now_ms)
        for name, channel in channels.items():
            if name in stopped:
                dues.append(stopped[name])
                continue
            if (again_at := self._waits_for_replica(name, now_ms)) is not None:
                dues.append(again_at)
                continue
            fitting = self._room_of(name, room)
            if heads := self._backlog(name).take(fitting, now_ms=now_ms):
                for sending in await self._claims(heads):
                    room -= 1
                    self.worker.start(self._send(channel, sending))
            opens_at = self._heads.opens_at(name, room=fitting)
            dues += [responses.next_due(self.reader, name, now_ms=now_ms), opens_at]
        soonest = min((due for due in dues if due is not None), default=None)
        return None if soonest is None else max(0.0, (soonest - clock.now_ms()) / 1000)

    def _backlog(self, account: str) -> Backlog[int]:
        if account not in self._backlogs:
            self._backlogs[account] = Backlog(partial(self._look, account))
        return self._backlogs[account]

    def _look(self, channel: str, now_ms: int) -> list[int]:
        return self._heads.look(channel, now_ms=now_ms, held=self._chats)

    async def _claims(self, heads: list[int]) -> list[Sending]:
        """The claims of these heads. One whose row can't be used is set aside, and the others are claimed."""
        try:
            claimed = await self.claim(partial(self._claim, heads=heads))
        except OF_ONE_ROW:  # nothing of it was kept
            claimed = await self.claim(partial(self._claim_apart, heads=heads))
        for sending in claimed:
            self._chats.add(sending.response.chat_id)
            self._heads.begin(sending.response)
        return claimed

    def _claim(self, conn: apsw.Connection, heads: list[int]) -> list[Sending]:
        token = f"send_{os.getpid()}_{chance.token_hex(6)}"
        now_ms = clock.now_ms()  # not earlier: the lease must not run while we wait for the write lock
        lease_ms = self.settings.lease_ms
        claims = (deliveries.claim(conn, head, token=token, now_ms=now_ms, lease_ms=lease_ms) for head in heads)
        return [claim for claim in claims if claim is not None]

    def _claim_apart(self, conn: apsw.Connection, heads: list[int]) -> list[Sending]:
        """As ``_claim``, each head in a savepoint of its own."""
        claimed = []
        for head in heads:
            try:
                with savepoint(conn):
                    claimed += self._claim(conn, [head])
            except OF_ONE_ROW as error:
                deliveries.set_aside(conn, head, error, DeliveryPolicy.of(self.settings), now_ms=clock.now_ms())
        return claimed

    def _waits_for_replica(self, channel: str, now_ms: int) -> int | None:
        """The instant from which the channel may try the replica again; None: now."""
        again_at = self._replica_again_at
        if again_at is None or not self.replication.is_awaited(channel):
            return None
        return again_at if 0 < again_at - now_ms <= _REPLICA_PAUSE_MS else None

    def _room_of(self, channel: str, room: int) -> int:
        """How many sends of the channel may begin, of *room*: one as long as the replica does not answer."""
        room = self._heads.room(channel, room)
        if self._replica_again_at is None or not self.replication.is_awaited(channel):
            return room
        return min(room, 1 - self._confirming)

    async def _send(self, channel: Channel, sending: Sending) -> None:
        response = sending.response
        try:
            await self._confirm(response.channel)
            await self.sender.send(channel, sending)
        except NotReplicated as error:
            log.warning("deliver.not_replicated", channel=response.channel, response_id=response.id, reason=str(error))
            with contextlib.suppress(ClaimLost):
                await write_durably(self, partial(responses.release, response=response))
        finally:
            # Not earlier: a send that lost its lease (the machine slept) is still under way.
            self._chats.discard(response.chat_id)
            self._heads.end(response)
        self.kick("api")

    async def _confirm(self, channel: str) -> None:
        """Return when what is committed is as durable as the channel wants it.

        Raises:
            NotReplicated: nothing more may be sent of the response.
        """
        if not self.replication.is_awaited(channel):
            return
        self._confirming += 1
        try:
            await self.replication.confirm(channel)
        except NotReplicated:
            self._replica_again_at = clock.now_ms() + _REPLICA_PAUSE_MS
            raise
        else:
            self._replica_again_at = None
        finally:
            self._confirming -= 1

    async def _try_one(self, channel: Channel) -> None:
        """Send the response with which to see whether the platform works again."""
        head = responses.trial(self.reader, channel.name, now_ms=clock.now_ms(), held=self._chats)
        for sending in await self._claims([] if head is None else [head]):
            await self._send(channel, sending)

    async def close(self) -> None:
        await super().close()
        await self.replication.close()
        await self.client.close()


_service = LazyService(Deliver)
lifespan = _service.lifespan
_app = function_app("deliver", [tick_route(_service, wake)])


@framework.http
async def deliver(_: Request) -> Reply:
    """The handler: ``/tick`` and ``/healthz``."""
    return AppResponse(_app)
