"""What ``deliver`` asks a platform beside its sends: is the token good, is the outage over, is the new bot ready."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import apsw

from shared.channels import token_check
from shared.channels.base import Channel
from shared.conversation.access import bot_setup, channel_watch, own_bots
from shared.conversation.delivery.outcomes import write_durably
from shared.conversation.routing import commands
from shared.core import logs
from shared.core.errors import PlatformDown, PostroomError, TokenRefused
from shared.core.text import redaction
from shared.core.time import clock
from shared.db.platforms import channel_outages, channel_pauses
from shared.db.platforms.channel_outages import ChannelOutage
from shared.db.platforms.channel_pauses import ChannelPause
from shared.db.roster.accounts import Account
from shared.queue import deliveries
from shared.queue.delivery_verdicts import DeliveryPolicy
from shared.queue.platforms import outages, pacing, pauses
from shared.runtime.http_client import Client
from shared.runtime.worker_service import WorkerService

log = logs.get()

Ask = Callable[[], Coroutine[Any, Any, None]]

_LONGEST_SET_UP_S = 60.0
_GIVEN_UP_AT_ONCE = 25  # responses in one transaction


class PlatformQuestions:
    """Asks platforms for *service* when that is due, each about one thing at a time.

    Args:
        try_one: sends one waiting response of a channel, to see whether its platform takes it.
    """

    def __init__(self, service: WorkerService, client: Client, try_one: Callable[[Channel], Awaitable[None]]) -> None:
        self._service = service
        self._client = client
        self._try_one = try_one
        self._asked: set[str] = set()  # what this process is asking about now

    def set_up_when_due(self, account: Account, channels: Mapping[str, Channel], now_ms: int) -> int | None:
        """Start to set up a bot that a person made for one of ours; the instant of the next attempt, None: it runs."""
        manager = channels.get(account.manager or "")
        return self._ask_when_due(
            f"set-up {account.name}", account.retry_at or 0, partial(self._set_up, account, manager), now_ms
        )

    def stopped(self, channels: Mapping[str, Channel], now_ms: int) -> dict[str, int | None]:
        """The channels that send nothing now, each with the instant of the next look; None: one is under way."""
        found: dict[str, int | None] = dict(pacing.held_bots(self._service.reader, now_ms=now_ms))
        for name, outage in channel_outages.every(self._service.reader).items():
            if name in channels:
                ask = partial(self._probe, channels[name], outage)
                found[name] = self._ask_when_due(name, outage.probe_at, ask, now_ms)
        for name, pause in channel_pauses.every(self._service.reader).items():
            if name in channels:
                ask = partial(self._check, channels[name], pause)
                found[name] = self._ask_when_due(name, pause.check_at, ask, now_ms)
        return found

    def _ask_when_due(self, name: str, at_ms: int, ask: Ask, now_ms: int) -> int | None:
        """Start to ask the platform when that is due; the instant of the next time, None while it is being asked."""
        if name in self._asked:
            return None
        if at_ms > now_ms:
            return at_ms
        self._asked.add(name)
        self._service.worker.start(ask())
        return None

    async def _set_up(self, account: Account, manager: Channel | None) -> None:
        """Fetch its token and register its webhook, and write the outcome."""
        try:
            await write_durably(self._service, await self._outcome_of_set_up(account, manager))
        finally:
            self._asked.discard(f"set-up {account.name}")
        self._service.kick("api")

    async def _outcome_of_set_up(self, account: Account, manager: Channel | None) -> Callable[[apsw.Connection], None]:
        """What to write about it. Never raises."""
        now_ms = clock.now_ms()
        try:
            async with asyncio.timeout(_LONGEST_SET_UP_S):
                username = await bot_setup.set_up(
                    account, manager, self._client, self._service.settings.account_tokens, menu=commands.MENU
                )
        except TimeoutError:
            reason = f"the platform did not answer within {_LONGEST_SET_UP_S:g} s"
        except (PostroomError, OSError) as error:
            reason = str(error)
        except Exception as error:  # the batch boundary: the row has the reason
            log.exception("deliver.account_failed", channel=account.name)
            reason = f"the set-up failed ({type(error).__name__}); the log of deliver says where"
        else:
            log.info("deliver.account_ready", channel=account.name)
            return partial(own_bots.activate, account=account, username=username, now_ms=now_ms)
        log.warning("deliver.account_not_ready", channel=account.name, reason=reason)
        return partial(own_bots.postpone, account=account, reason=reason, now_ms=now_ms)

    async def _check(self, channel: Channel, pause: ChannelPause) -> None:
        """Ask the platform about the token, and let the channel send again where it is accepted."""
        try:
            problem = await token_check.problem(channel, self._client)
            await write_durably(self._service, partial(self._write_check, pause=pause, problem=problem))
        finally:
            self._asked.discard(pause.channel)
        if problem is None:
            log.info("deliver.channel_resumed", channel=pause.channel)
        self._service.kick("api")

    def _write_check(self, conn: apsw.Connection, pause: ChannelPause, problem: str | None) -> None:
        now_ms = clock.now_ms()
        if problem is None:
            channel_pauses.resume(conn, pause.channel, now_ms=now_ms)
        else:
            pauses.check_again(conn, pause, problem, now_ms=now_ms)

    async def _probe(self, channel: Channel, outage: ChannelOutage) -> None:
        """Ask the platform without any effect, then by one response; where both go through, the others follow."""
        try:
            error = await token_check.failure(channel, self._client)
            if error is None and outage.code == "no_answer":
                error = await token_check.silence(channel, self._client)
            if error is None:
                await self._try_one(channel)
            has_ended = await write_durably(self._service, partial(self._write_probe, outage=outage, error=error))
            given_up = 1
            while given_up:
                given_up = await write_durably(self._service, partial(self._give_up, channel=outage.channel))
        finally:
            self._asked.discard(outage.channel)
        if has_ended:
            log.info("deliver.outage_ended", channel=outage.channel)
        self._service.kick("api")

    def _write_probe(self, conn: apsw.Connection, outage: ChannelOutage, error: PostroomError | None) -> bool:
        """Write what the probe found; whether the outage is over. A failed try has extended it already."""
        now_ms = clock.now_ms()
        if isinstance(error, TokenRefused):
            if pauses.pause(conn, outage.channel, error, now_ms=now_ms):
                channel_watch.tell_paused(conn, outage.channel, str(error), now_ms=now_ms)
        elif error is not None:
            down = PlatformDown(str(error), outage.code)
            policy = DeliveryPolicy.of(self._service.settings)
            outages.note(conn, outage.channel, down, redaction.redact(str(error)), policy, now_ms=now_ms)
            return False
        return channel_outages.end(conn, outage, now_ms=now_ms)

    def _give_up(self, conn: apsw.Connection, channel: str) -> int:
        outage = channel_outages.get(conn, channel)
        if outage is None:
            return 0
        policy = DeliveryPolicy.of(self._service.settings)
        return deliveries.give_up(conn, outage, policy, now_ms=clock.now_ms(), limit=_GIVEN_UP_AT_ONCE)
