"""Sends one claimed response: opens its chat, sends its parts, and writes what became of each."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

import apsw

from shared.channels import outgoing_files, part_plan, registry, token_check
from shared.channels.base import Channel, Evidence, Outgoing, Part, Sent
from shared.channels.part_plan import FilesUnsendable, PartPlan
from shared.conversation.access import channel_watch, undelivered
from shared.conversation.delivery.outcomes import write_durably
from shared.core import accounts, logs
from shared.core.errors import (
    ClaimLost,
    FilesRefused,
    NotReplicated,
    OutcomeUnknown,
    PartTooLong,
    PermanentError,
    PlaceGone,
    PlatformDown,
    PostroomError,
    RetryableError,
    TokenRefused,
)
from shared.core.time import clock
from shared.db.platforms import unknown_sends
from shared.db.platforms.unknown_sends import EvidenceWord
from shared.db.queue import responses
from shared.db.queue.responses import Response
from shared.db.roster import accounts as roster
from shared.queue import deliveries
from shared.queue.deliveries import Sending
from shared.queue.delivery_verdicts import DeliveryPolicy
from shared.queue.platforms import pauses
from shared.runtime.http_client import Client
from shared.runtime.worker_service import WorkerService

log = logs.get()

T = TypeVar("T")
Parts = tuple[str | None, ...]

_LEASE_SHARE = 0.6  # of the lease, for one send; the rest is for writing the outcome
_QUESTION_SHARE = 0.1  # of the lease, for each question whether the platform works after a send without an answer
_LONGEST_SEND_S = 60.0
_REFUSED_CALL_WAIT_MS = 60_000  # where the platform refuses a call as if the token were wrong, and accepts the token


class Sender:
    """Sends responses for *service*, all through one HTTP client.

    Args:
        confirm: returns when what is committed may be relied on for this channel, or raises NotReplicated.
    """

    def __init__(self, service: WorkerService, client: Client, confirm: Callable[[str], Awaitable[None]]) -> None:
        self._service = service
        self._client = client
        self._confirm = confirm
        self._settings = service.settings

    async def send(self, channel: Channel, sending: Sending) -> None:
        """Send the remaining parts of one response, and write the outcome.

        Raises:
            apsw.Error: the outcome could not be written. The lease runs out, and the outcome counts as unknown.
            NotReplicated: some parts are sent and noted, and the next one was not begun.
        """
        response = sending.response
        context = {"channel": response.channel, "response_id": response.id, "message_id": response.message_id}
        try:
            sent = await self._attempt(channel, sending)
        except ClaimLost as error:
            log.warning("deliver.lost", reason=str(error), **context)
        except TokenRefused as error:
            await self._hold(response, error)
        except (apsw.Error, NotReplicated):
            raise
        except Exception as error:  # the batch boundary: the row has the reason, the other sends continue
            if not isinstance(error, PostroomError):
                log.exception("deliver.failed", **context)
                error = PermanentError(f"the channel failed ({type(error).__name__}); the log of deliver says where")
            if isinstance(error, OutcomeUnknown) and not error.no_evidence:
                error = await self._outage_of(channel, response, error)
            verdict = await write_durably(self._service, partial(self._fail, response=response, error=error))
            log.warning("deliver.dead" if verdict.dead else "deliver.retry", reason=verdict.reason, **context)
        else:
            log.info("deliver.sent" if sent else "deliver.chat_opened", parts=sent, **context)

    async def _attempt(self, channel: Channel, sending: Sending) -> int:
        """Send the response, or open its chat first; how many parts were sent.

        Raises:
            TokenRefused: the platform refuses our token.
            RetryableError: the platform refuses this request as if our token were wrong, and accepts the token.
        """
        try:
            return await self._open_or_send(channel, sending)
        except TokenRefused as error:
            if await token_check.problem(channel, self._client) is not None:
                raise TokenRefused(accounts.with_its_variables(channel.name, str(error))) from None
            raise RetryableError(str(error), _REFUSED_CALL_WAIT_MS) from None

    async def _outage_of(self, channel: Channel, response: Response, error: OutcomeUnknown) -> PostroomError:
        """What a send without an answer means: an outage where the platform answers to nothing or to no send, else it
        is this send's own failure. The sends of several chats without one in between that got through are no accident.
        """
        limit_s = min(self._settings.lease_ms / 1000 * _QUESTION_SHARE, token_check.LIMIT_S)
        is_silent = (
            await token_check.problem(channel, self._client, limit_s=limit_s) is not None
            or await token_check.silence(channel, self._client, limit_s=limit_s) is not None
            or unknown_sends.is_of_several_chats(self._service.reader, response, now_ms=clock.now_ms())
        )
        if not is_silent:
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
                platform_id = await channel.open_direct(response.opens_for, self._client)
        except TimeoutError:
            raise RetryableError(f"the direct chat was not opened within {self._limit_s:g} s") from None
        await write_durably(
            self._service, partial(self._move_to_opened_chat, response=response, platform_id=platform_id)
        )
        return 0

    def _work_of(self, sending: Sending) -> Callable[[Channel, Sending], Awaitable[int]]:
        if sending.ends_wait:
            return self._end_wait
        if sending.removes:
            return self._remove
        return self._react if sending.reaction else self._send_parts

    async def _end_wait(self, channel: Channel, sending: Sending) -> int:
        """The event gets no answer: the platform stops showing a wait, unless another agent has answered."""
        if sending.is_first:
            end = channel.end_wait(sending.outgoing(0, of=1), self._client, now_ms=clock.now_ms())
            await self._within_lease(end, is_repeatable=True)
        await self._acknowledge(sending.response)
        return 0

    async def _send_parts(self, channel: Channel, sending: Sending) -> int:
        response = sending.response
        plan = sending.plan(channel.render)
        if not plan.parts:
            raise PermanentError("the response has nothing that the platform can show")
        sent, also = response.parts, tuple[str, ...]()
        while (index := len(sent)) < len(plan.parts):
            part = plan.parts[index]
            if part_plan.is_empty(part):  # its files were left out
                sent = (*sent, None)
                continue
            if index > len(response.parts):  # the claim renewed the lease for the first of them
                await write_durably(self._service, partial(self._record_part, response=response, sent=sent, also=also))
                await self._confirm(response.channel)
            try:
                await self._check_files(part, response)
                reached = await self._reach(channel, sending, part, index, of=len(plan.parts), sent=sent)
                sent, also = (*sent, reached.message_id), (*also, *reached.also)
            except (PartTooLong, FilesRefused) as error:
                plan = await self._after_objection(response, plan, index, error)
        sentences = plan.note.splitlines() if plan.unsent else ()
        await self._acknowledge(response, sent, also, sentences)
        return len(sent)

    async def _reach(self, channel: Channel, sending: Sending, part: Part, index: int, *, of: int, sent: Parts) -> Sent:
        """Send part *index* of *of*, unless an earlier send of it arrived; *sent*: the ids of those before it."""
        response = sending.response
        if sending.topic is not None and index == 0:
            making = channel.make_topic(sending.topic, sending.outgoing(0, of=of), self._client)
            return Sent(await self._within_lease(making, is_repeatable=False))
        to = sending.outgoing(index, of=of, topic_id=sent[0] if sending.topic is not None else None)
        earlier = await self._find_earlier(channel, response, part, to) if index == len(response.parts) else None
        if earlier is not None:
            return earlier
        return await self._send(channel, part, to, is_repeatable=sending.is_repeatable(index))

    async def _find_earlier(self, channel: Channel, response: Response, part: Part, to: Outgoing) -> Sent | None:
        """The message that an earlier send without an answer made of this part; None: send it.

        Raises:
            OutcomeUnknown: the platform shows nothing either way, and the operator wants nothing sent twice.
        """
        if response.failure != "outcome_unknown" or not registry.traits(response.channel).finds_sent:
            return None
        tried_from = unknown_sends.tried_from(self._service.reader, response.id, to.part_index)
        if tried_from is None:
            return None
        asking = channel.find_sent(part, to, self._client, tried_from=tried_from, now_ms=clock.now_ms())
        found = await self._within_lease(asking, is_repeatable=True)
        verdict, message_id = await write_durably(
            self._service, partial(self._settle, response=response, part=to.part_index, found=found)
        )
        log.info("deliver.evidence", response_id=response.id, part=to.part_index, evidence=verdict)
        if verdict == "none" and self._settings.unknown_sends == "hold":
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
        await write_durably(self._service, partial(self._keep_plan, response=response, before=plan, plan=changed))
        return changed

    async def _send(self, channel: Channel, part: Part, to: Outgoing, *, is_repeatable: bool) -> Sent:
        """Send one part within its lease, so that the next owner of the response never sends beside us."""
        return await self._within_lease(
            channel.send(part, to, self._client, now_ms=clock.now_ms()),
            is_repeatable=is_repeatable,
            uploads=bool(part.files),
        )

    async def _react(self, channel: Channel, sending: Sending) -> int:
        """Set the reaction that the response is. It can be repeated, so its outcome is never unknown for long."""
        target = sending.target
        if target is None:
            raise PermanentError("the message to react to has no id of the platform: it was never delivered")
        react = channel.react(sending.emoji, target, sending.outgoing(0, of=1), self._client)
        await self._within_lease(react, is_repeatable=True)
        await self._acknowledge(sending.response)
        return 1

    async def _remove(self, channel: Channel, sending: Sending) -> int:
        """Remove the message that the response names. One that never arrived, or that can't be removed, stays so."""
        if sending.target is not None:
            remove = channel.remove(sending.target, sending.outgoing(0, of=1), self._client)
            try:
                await self._within_lease(remove, is_repeatable=True)
            except PermanentError as error:
                log.info("deliver.not_removed", response_id=sending.response.id, reason=str(error))
        await self._acknowledge(sending.response)
        return 0

    async def _within_lease(self, work: Coroutine[Any, Any, T], *, is_repeatable: bool, uploads: bool = False) -> T:
        limit_s = send_limit_s(self._settings.lease_ms, uploads=uploads)
        try:
            async with asyncio.timeout(limit_s):
                return await work
        except TimeoutError:
            silent = f"the platform did not answer within {limit_s:g} s"
            raise OutcomeUnknown(silent, is_repeatable=is_repeatable) from None

    async def _hold(self, response: Response, error: TokenRefused) -> None:
        is_new = await write_durably(self._service, partial(self._hold_response, response=response, error=error))
        if is_new:  # once: all its responses wait
            log.error("deliver.channel_paused", channel=response.channel, reason=str(error))

    def _hold_response(self, conn: apsw.Connection, response: Response, error: TokenRefused) -> bool:
        roster.refresh(conn, response.channel, now_ms=clock.now_ms())
        now_ms = clock.now_ms()
        is_new = pauses.hold(conn, response, error, now_ms=now_ms)
        if is_new:
            channel_watch.tell_paused(conn, response.channel, str(error), now_ms=now_ms)
        return is_new

    @property
    def _limit_s(self) -> float:
        return send_limit_s(self._settings.lease_ms)

    def _move_to_opened_chat(self, conn: apsw.Connection, response: Response, platform_id: str) -> None:
        deliveries.move_to_opened_chat(conn, response, platform_id, now_ms=clock.now_ms())

    def _record_part(self, conn: apsw.Connection, response: Response, sent: Parts, also: tuple[str, ...]) -> None:
        responses.record_part(conn, response, sent, also, lease_until=clock.now_ms() + self._settings.lease_ms)

    def _keep_plan(self, conn: apsw.Connection, response: Response, before: PartPlan, plan: PartPlan) -> None:
        lease_until = clock.now_ms() + self._settings.lease_ms
        if plan.cuts != before.cuts:
            responses.record_cut(conn, response, plan.cuts, lease_until=lease_until)
        if plan.unsent != before.unsent:
            responses.record_left_out_files(conn, response, part_plan.stored(plan.unsent), lease_until=lease_until)

    async def _acknowledge(
        self, response: Response, sent: Parts = (), also: tuple[str, ...] = (), unsent: Sequence[str] = ()
    ) -> None:
        def work(conn: apsw.Connection) -> None:
            deliveries.acknowledge(conn, response, sent, also, unsent, now_ms=clock.now_ms())

        await write_durably(self._service, work)

    def _fail(self, conn: apsw.Connection, response: Response, error: Exception) -> responses.ResponseVerdict:
        now_ms = clock.now_ms()
        verdict = deliveries.fail(conn, response, error, DeliveryPolicy.of(self._settings), now_ms=now_ms)
        if isinstance(error, PlaceGone):
            undelivered.tell(conn, response, verdict.reason, now_ms=now_ms)
        return verdict


def send_limit_s(lease_ms: int, *, uploads: bool = False) -> float:
    """How long one send may take. Files of 50 MB take minutes over a slow line; no send outlasts its lease."""
    within_lease = lease_ms / 1000 * _LEASE_SHARE
    return within_lease if uploads else min(within_lease, _LONGEST_SEND_S)
