"""``deliver``: claims the oldest due response of each chat, sends it through its channel, and acknowledges.

It works on a kick, on its tick (``POST /tick``: 202), and when something becomes due. One deliver works on a database.
"""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import apsw
from starlette.requests import Request
from starlette.responses import Response as Reply

from shared.access import bot_setup, channel_watch, own_bots, undelivered
from shared.channels import outgoing_files, part_plan, registry, token_check
from shared.channels.base import Channel, Evidence, Outgoing, Part, Sent
from shared.channels.part_plan import FilesUnsendable, PartPlan
from shared.core import accounts, clock, logs, redaction
from shared.core.errors import (
    OF_ONE_ROW,
    ClaimLost,
    FilesRefused,
    OutcomeUnknown,
    PartTooLong,
    PermanentError,
    PlaceGone,
    PlatformDown,
    PostroomError,
    RetryableError,
    TokenRefused,
)
from shared.core.settings import Settings
from shared.db.engine.connection import savepoint
from shared.db.platforms import channel_outages, channel_pauses, unknown_sends
from shared.db.platforms.channel_outages import ChannelOutage
from shared.db.platforms.channel_pauses import ChannelPause
from shared.db.platforms.unknown_sends import EvidenceWord
from shared.db.queue import responses
from shared.db.queue.responses import Response
from shared.db.roster import accounts as roster
from shared.db.roster.accounts import Account
from shared.queue import deliveries, outages, pacing
from shared.queue.deliveries import DeliveryPolicy, Sending
from shared.roster.served_accounts import ServedAccounts
from shared.routing import commands
from shared.runtime import framework, retries
from shared.runtime.app import AppResponse, function_app, tick_route
from shared.runtime.http_client import Client, HttpClient
from shared.runtime.service import LazyService
from shared.runtime.worker import Backlog
from shared.runtime.worker_service import WorkerService, wake

log = logs.get()

T = TypeVar("T")
Ask = Callable[[], Coroutine[Any, Any, None]]
Parts = tuple[str | None, ...]

_LEASE_SHARE = 0.6  # of the lease, for one send; the rest is for writing the outcome
_QUESTION_SHARE = 0.2  # of the lease, for asking whether the platform works after a send without an answer
_LONGEST_SEND_S = 60.0
_REFUSED_CALL_WAIT_MS = 60_000  # where the platform refuses a call as if the token were wrong, and accepts the token
_LONGEST_QUESTION_WAIT_MS = 60 * 60_000  # before a platform is asked again about an outage, a token or a new bot
_GIVEN_UP_AT_ONCE = 25  # responses in one transaction
_WRITE_PAUSES_S = (0.1, 0.5, 2.0, *[5.0] * 100)  # a full disk or a long lock: as long as a lease lasts


class Deliver(WorkerService):
    """Claims responses and sends them, all through one HTTP client."""

    def __init__(self, settings: Settings, client: Client | None = None) -> None:
        super().__init__("deliver", settings)
        self.client: Client = pacing.paced(client or HttpClient(), self)
        self._accounts = ServedAccounts(settings)
        self._backlogs: dict[str, Backlog[int]] = {}
        self._chats: set[int] = set()  # chats to which this process is sending
        self._asked: set[str] = set()  # channels whose platform this process is asking whether it works

    async def repair(self) -> None:
        """Give up the sends of earlier processes, which are gone: their outcome is unknown, and policy decides."""
        now_ms = clock.now_ms()
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
        dues += [self._set_up_when_due(each, channels, now_ms) for each in self._accounts.set_ups]
        stopped = self._stopped(channels, now_ms)
        for name, channel in channels.items():
            if name in stopped:
                dues.append(stopped[name])
                continue
            if heads := self._backlog(name).take(room, now_ms=now_ms):
                for sending in await self._claims(heads):
                    room -= 1
                    self._chats.add(sending.response.chat_id)
                    self.worker.start(self.deliver(channel, sending))
            dues.append(responses.next_due(self.reader, name, now_ms=now_ms))
        soonest = min((due for due in dues if due is not None), default=None)
        return None if soonest is None else max(0.0, (soonest - clock.now_ms()) / 1000)

    def _backlog(self, account: str) -> Backlog[int]:
        if account not in self._backlogs:
            self._backlogs[account] = Backlog(partial(self._look, account))
        return self._backlogs[account]

    def _set_up_when_due(self, account: Account, channels: Mapping[str, Channel], now_ms: int) -> int | None:
        """Start to set up a bot that a person made for one of ours; the instant of the next attempt, None: it runs."""
        manager = channels.get(account.manager or "")
        return self._ask_when_due(
            f"set-up {account.name}", account.retry_at or 0, partial(self._set_up, account, manager), now_ms
        )

    async def _set_up(self, account: Account, manager: Channel | None) -> None:
        """Fetch its token and register its webhook, and write the outcome."""
        try:
            await self._write(await self._outcome_of_set_up(account, manager))
        finally:
            self._asked.discard(f"set-up {account.name}")
        self.kick("api")

    async def _outcome_of_set_up(self, account: Account, manager: Channel | None) -> Callable[[apsw.Connection], None]:
        """What to write about it. Never raises."""
        now_ms = clock.now_ms()
        try:
            async with asyncio.timeout(_LONGEST_SEND_S):
                username = await bot_setup.set_up(
                    account, manager, self.client, self.settings.account_tokens, menu=commands.MENU
                )
        except TimeoutError:
            reason = f"the platform did not answer within {_LONGEST_SEND_S:g} s"
        except (PostroomError, OSError) as error:
            reason = str(error)
        except Exception as error:  # the batch boundary: the row has the reason
            log.exception("deliver.account_failed", channel=account.name)
            reason = f"the set-up failed ({type(error).__name__}); the log of deliver says where"
        else:
            log.info("deliver.account_ready", channel=account.name)
            return partial(own_bots.ready, account=account, username=username, now_ms=now_ms)
        log.warning("deliver.account_not_ready", channel=account.name, reason=reason)
        return partial(own_bots.failed, account=account, reason=reason, now_ms=now_ms)

    def _stopped(self, channels: Mapping[str, Channel], now_ms: int) -> dict[str, int | None]:
        """The channels that send nothing now, each with the instant of the next look; None: one is under way."""
        found: dict[str, int | None] = dict(pacing.held_bots(self.reader, now_ms=now_ms))
        for name, outage in channel_outages.every(self.reader).items():
            if name in channels:
                ask = partial(self._probe, channels[name], outage)
                found[name] = self._ask_when_due(name, outage.probe_at, ask, now_ms)
        for name, pause in channel_pauses.every(self.reader).items():
            if name in channels:
                ask = partial(self._check, channels[name], pause)
                found[name] = self._ask_when_due(name, pause.check_at, ask, now_ms)
        return found

    def _ask_when_due(self, name: str, at_ms: int, ask: Ask, now_ms: int) -> int | None:
        """Start to ask the platform when that is due; the instant of the next time, None while it is being asked."""
        if name in self._asked:
            return None
        if 0 < at_ms - now_ms <= _LONGEST_QUESTION_WAIT_MS:  # a later instant is of a clock that was ahead
            return at_ms
        self._asked.add(name)
        self.worker.start(ask())
        return None

    def _look(self, channel: str, now_ms: int) -> list[int]:
        return responses.heads(self.reader, channel, now_ms=now_ms, held=self._chats)

    async def _claims(self, heads: list[int]) -> list[Sending]:
        """The claims of these heads. One whose row can't be used is set aside, and the others are claimed."""
        try:
            return await self.claim(partial(self._claim, heads=heads))
        except OF_ONE_ROW:  # nothing of it was kept
            return await self.claim(partial(self._claim_apart, heads=heads))

    def _claim(self, conn: apsw.Connection, heads: list[int]) -> list[Sending]:
        token = f"send_{os.getpid()}_{secrets.token_hex(6)}"
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

    async def deliver(self, channel: Channel, sending: Sending) -> None:
        """Send the remaining parts of one response, and write the outcome."""
        response = sending.response
        context = {"channel": response.channel, "response_id": response.id, "message_id": response.message_id}
        try:
            sent = await self._attempt(channel, sending)
        except ClaimLost as error:
            log.warning("deliver.lost", reason=str(error), **context)
            return
        except TokenRefused as error:
            await self._hold(response, error)
        except apsw.Error:
            raise  # the outcome could not be written: the lease runs out, and the outcome counts as unknown
        except Exception as error:  # the batch boundary: the row has the reason, the other sends continue
            if not isinstance(error, PostroomError):
                log.exception("deliver.failed", **context)
                error = PermanentError(f"the channel failed ({type(error).__name__}); the log of deliver says where")
            if isinstance(error, OutcomeUnknown) and not error.no_evidence:
                error = await self._outage_of(channel, error)
            verdict = await self._write(partial(self._fail, response=response, error=error))
            log.warning("deliver.dead" if verdict.dead else "deliver.retry", reason=verdict.reason, **context)
        else:
            log.info("deliver.sent" if sent else "deliver.chat_opened", parts=sent, **context)
        finally:
            # Not earlier: a send that lost its lease (the machine slept) is still under way.
            self._chats.discard(response.chat_id)
        self.kick("api")

    async def _attempt(self, channel: Channel, sending: Sending) -> int:
        """Send the response, or open its chat first; how many parts were sent.

        Raises:
            TokenRefused: the platform refuses our token.
            RetryableError: the platform refuses this request as if our token were wrong, and accepts the token.
        """
        try:
            return await self._open_or_send(channel, sending)
        except TokenRefused as error:
            if await token_check.problem(channel, self.client) is not None:
                raise TokenRefused(accounts.with_its_variables(channel.name, str(error))) from None
            raise RetryableError(str(error), _REFUSED_CALL_WAIT_MS) from None

    async def _outage_of(self, channel: Channel, error: OutcomeUnknown) -> PostroomError:
        """What a send without an answer means: the platform's outage where it answers to nothing, else this send's."""
        limit_s = min(self.settings.lease_ms / 1000 * _QUESTION_SHARE, token_check.LIMIT_S)
        if await token_check.problem(channel, self.client, limit_s=limit_s) is None:
            return error
        return PlatformDown(str(error), "no_answer", may_have_arrived=not error.is_repeatable)

    async def _open_or_send(self, channel: Channel, sending: Sending) -> int:
        response = sending.response
        if response.is_inactive:
            raise PermanentError(
                "the chat is inactive: it was retired or set inactive, or the bot was blocked or removed there"
            )
        if response.opens_for is None:
            return await self._work_of(sending)(channel, sending)
        try:
            async with asyncio.timeout(self._limit_s):
                platform_id = await channel.open_direct(response.opens_for, self.client)
        except TimeoutError:
            raise RetryableError(f"the direct chat was not opened within {self._limit_s:g} s") from None
        await self._write(partial(self._opened, response=response, platform_id=platform_id))
        return 0

    def _work_of(self, sending: Sending) -> Callable[[Channel, Sending], Awaitable[int]]:
        if sending.ends_wait:
            return self._end_wait
        return self._react if sending.reaction else self._send_parts

    async def _end_wait(self, channel: Channel, sending: Sending) -> int:
        """The event gets no answer: the platform stops showing a wait, unless another agent has answered."""
        if sending.is_first:
            end = channel.end_wait(sending.outgoing(0, of=1), self.client, now_ms=clock.now_ms())
            await self._within_lease(end, is_repeatable=True)
        await self._write(partial(self._acknowledge, response=sending.response, sent=(), also=(), unsent=()))
        return 0

    async def _send_parts(self, channel: Channel, sending: Sending) -> int:
        response = sending.response
        plan = sending.plan(channel.render)
        if not plan.parts:
            raise PermanentError("the response holds nothing that the platform can show")
        sent, also = response.parts, tuple[str, ...]()
        while (index := len(sent)) < len(plan.parts):
            part = plan.parts[index]
            if part_plan.is_empty(part):  # its files were left out
                sent = (*sent, None)
                continue
            if index > len(response.parts):  # the claim renewed the lease for the first of them
                await self._write(partial(self._part_sent, response=response, sent=sent, also=also))
            try:
                await self._check_files(part, response)
                to = sending.outgoing(index, of=len(plan.parts))
                reached = await self._found(channel, response, part, to) if index == len(response.parts) else None
                if reached is None:
                    reached = await self._send(channel, part, to, is_repeatable=sending.is_repeatable(index))
                sent, also = (*sent, reached.message_id), (*also, *reached.also)
            except (PartTooLong, FilesRefused) as error:
                plan = await self._after_objection(response, plan, index, error)
        sentences = plan.note.splitlines() if plan.unsent else ()
        await self._write(partial(self._acknowledge, response=response, sent=sent, also=also, unsent=sentences))
        return len(sent)

    async def _found(self, channel: Channel, response: Response, part: Part, to: Outgoing) -> Sent | None:
        """The message that an earlier send without an answer made of this part; None: send it.

        Raises:
            OutcomeUnknown: the platform shows nothing either way, and the operator wants nothing sent twice.
        """
        if response.failure != "outcome_unknown" or not registry.traits(response.channel).finds_sent:
            return None
        tried_from = unknown_sends.tried_from(self.reader, response.id, to.part_index)
        if tried_from is None:
            return None
        asking = channel.find_sent(part, to, self.client, tried_from=tried_from, now_ms=clock.now_ms())
        found = await self._within_lease(asking, is_repeatable=True)
        verdict, message_id = await self._write(
            partial(self._settle, response=response, part=to.part_index, found=found)
        )
        log.info("deliver.evidence", response_id=response.id, part=to.part_index, evidence=verdict)
        if verdict == "none" and self.settings.unknown_sends == "hold":
            raise OutcomeUnknown("the part may have arrived, and the platform does not show it", no_evidence=True)
        return Sent(message_id) if verdict == "arrived" else None

    def _settle(
        self, conn: apsw.Connection, response: Response, part: int, found: Evidence
    ) -> tuple[EvidenceWord, str | None]:
        now_ms = clock.now_ms()
        return unknown_sends.settle_found(conn, response, part, found.verdict, found.message_ids, now_ms=now_ms)

    async def _check_files(self, part: Part, response: Response) -> None:
        """Look at the part's files, which may be gone by now, or be too large for the platform.

        Raises:
            FilesUnsendable: some of them can't be sent.
        """
        if part.files:
            limits = registry.traits(response.channel).files
            problems = await asyncio.to_thread(outgoing_files.problems, part.files, limits)
            if problems:
                raise FilesUnsendable(problems)

    async def _after_objection(
        self, response: Response, plan: PartPlan, index: int, error: PartTooLong | FilesRefused
    ) -> PartPlan:
        """The plan without what can't be sent, as the row now says too.

        Raises:
            PartTooLong: the part can't be smaller.
        """
        changed = plan.after(error, index)
        if changed is None:
            raise error
        await self._write(partial(self._plan_changed, response=response, before=plan, plan=changed))
        return changed

    async def _send(self, channel: Channel, part: Part, to: Outgoing, *, is_repeatable: bool) -> Sent:
        """Send one part within its lease, so that the next owner of the response never sends beside us."""
        return await self._within_lease(
            channel.send(part, to, self.client, now_ms=clock.now_ms()),
            is_repeatable=is_repeatable,
            uploads=bool(part.files),
        )

    async def _react(self, channel: Channel, sending: Sending) -> int:
        """Set the reaction that the response is. It can be repeated, so its outcome is never unknown for long."""
        target = sending.target
        if target is None:
            raise PermanentError("the message to react to has no id of the platform: it was never delivered")
        react = channel.react(sending.emoji, target, sending.outgoing(0, of=1), self.client)
        await self._within_lease(react, is_repeatable=True)
        await self._write(partial(self._acknowledge, response=sending.response, sent=(), also=(), unsent=()))
        return 1

    async def _within_lease(self, work: Coroutine[Any, Any, T], *, is_repeatable: bool, uploads: bool = False) -> T:
        limit_s = send_limit_s(self.settings.lease_ms, uploads=uploads)
        try:
            async with asyncio.timeout(limit_s):
                return await work
        except TimeoutError:
            silent = f"the platform did not answer within {limit_s:g} s"
            raise OutcomeUnknown(silent, is_repeatable=is_repeatable) from None

    # -- a channel whose token is refused

    async def _hold(self, response: Response, error: TokenRefused) -> None:
        is_new = await self._write(partial(self._hold_response, response=response, error=error))
        if is_new:  # once: all its responses wait
            log.error("deliver.channel_paused", channel=response.channel, reason=str(error))

    def _hold_response(self, conn: apsw.Connection, response: Response, error: TokenRefused) -> bool:
        roster.refresh(conn, response.channel, now_ms=clock.now_ms())
        now_ms = clock.now_ms()
        is_new = deliveries.hold(conn, response, error, now_ms=now_ms)
        if is_new:
            channel_watch.tell_paused(conn, response.channel, str(error), now_ms=now_ms)
        return is_new

    async def _check(self, channel: Channel, pause: ChannelPause) -> None:
        """Ask the platform about the token, and let the channel send again where it is accepted."""
        try:
            problem = await token_check.problem(channel, self.client)
            await self._write(partial(self._write_check, pause=pause, problem=problem))
        finally:
            self._asked.discard(pause.channel)
        if problem is None:
            log.info("deliver.channel_resumed", channel=pause.channel)
        self.kick("api")

    def _write_check(self, conn: apsw.Connection, pause: ChannelPause, problem: str | None) -> None:
        now_ms = clock.now_ms()
        if problem is None:
            channel_pauses.resume(conn, pause.channel, now_ms=now_ms)
        else:
            deliveries.check_again(conn, pause, problem, now_ms=now_ms)

    # -- a channel whose platform can't work

    async def _probe(self, channel: Channel, outage: ChannelOutage) -> None:
        """Ask the platform without any effect, then by one response; where both go through, the others follow."""
        try:
            error = await token_check.failure(channel, self.client)
            if error is None:
                await self._try_one(channel)
            has_ended = await self._write(partial(self._write_probe, outage=outage, error=error))
            given_up = 1
            while given_up:
                given_up = await self._write(partial(self._give_up, channel=outage.channel))
        finally:
            self._asked.discard(outage.channel)
        if has_ended:
            log.info("deliver.outage_ended", channel=outage.channel)
        self.kick("api")

    async def _try_one(self, channel: Channel) -> None:
        head = responses.trial(self.reader, channel.name, now_ms=clock.now_ms(), held=self._chats)
        for sending in await self._claims([] if head is None else [head]):
            self._chats.add(sending.response.chat_id)
            await self.deliver(channel, sending)

    def _write_probe(self, conn: apsw.Connection, outage: ChannelOutage, error: PostroomError | None) -> bool:
        """Write what the probe found; whether the outage is over. A failed try has extended it already."""
        now_ms = clock.now_ms()
        if isinstance(error, TokenRefused):
            if deliveries.pause(conn, outage.channel, error, now_ms=now_ms):
                channel_watch.tell_paused(conn, outage.channel, str(error), now_ms=now_ms)
        elif error is not None:
            down = PlatformDown(str(error), outage.code)
            policy = DeliveryPolicy.of(self.settings)
            outages.note(conn, outage.channel, down, redaction.redact(str(error)), policy, now_ms=now_ms)
            return False
        return channel_outages.end(conn, outage, now_ms=now_ms)

    def _give_up(self, conn: apsw.Connection, channel: str) -> int:
        outage = channel_outages.get(conn, channel)
        if outage is None:
            return 0
        policy = DeliveryPolicy.of(self.settings)
        return deliveries.give_up(conn, outage, policy, now_ms=clock.now_ms(), limit=_GIVEN_UP_AT_ONCE)

    @property
    def _limit_s(self) -> float:
        return send_limit_s(self.settings.lease_ms)

    def _opened(self, conn: apsw.Connection, response: Response, platform_id: str) -> None:
        deliveries.move_to_opened_chat(conn, response, platform_id, now_ms=clock.now_ms())

    def _part_sent(self, conn: apsw.Connection, response: Response, sent: Parts, also: tuple[str, ...]) -> None:
        responses.part_sent(conn, response, sent, also, lease_until=clock.now_ms() + self.settings.lease_ms)

    def _plan_changed(self, conn: apsw.Connection, response: Response, before: PartPlan, plan: PartPlan) -> None:
        lease_until = clock.now_ms() + self.settings.lease_ms
        if plan.cuts != before.cuts:
            responses.part_cut(conn, response, plan.cuts, lease_until=lease_until)
        if plan.unsent != before.unsent:
            responses.files_left_out(conn, response, part_plan.stored(plan.unsent), lease_until=lease_until)

    def _acknowledge(
        self,
        conn: apsw.Connection,
        response: Response,
        sent: Parts,
        also: tuple[str, ...],
        unsent: Sequence[str],
    ) -> None:
        deliveries.acknowledge(conn, response, sent, also, unsent, now_ms=clock.now_ms())

    def _fail(self, conn: apsw.Connection, response: Response, error: Exception) -> responses.ResponseVerdict:
        now_ms = clock.now_ms()
        verdict = deliveries.fail(conn, response, error, DeliveryPolicy.of(self.settings), now_ms=now_ms)
        if isinstance(error, PlaceGone):
            undelivered.tell(conn, response, verdict.reason, now_ms=now_ms)
        return verdict

    async def _write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Write, durably; where the database can't be written, try for as long as a lease lasts.

        A send can't be undone, and only we know of it. Giving up means that it is sent twice, or counts as not sent.
        """
        return await retries.write(self.writer, work, pauses_s=_WRITE_PAUSES_S, event="deliver.not_written")

    async def close(self) -> None:
        await super().close()
        await self.client.close()


def send_limit_s(lease_ms: int, *, uploads: bool = False) -> float:
    """How long one send may take. Files of 50 MB take minutes over a slow line; no send outlasts its lease."""
    within_lease = lease_ms / 1000 * _LEASE_SHARE
    return within_lease if uploads else min(within_lease, _LONGEST_SEND_S)


_service = LazyService(Deliver)
lifespan = _service.lifespan
_app = function_app("deliver", [tick_route(_service, wake)])


@framework.http
async def deliver(_: Request) -> Reply:
    """The handler: ``/tick`` and ``/healthz``."""
    return AppResponse(_app)
