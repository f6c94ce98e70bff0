"""The delivery of responses: what each part carries, and what a failure leads to. Deciding is apart from doing."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import apsw

from shared.channels import outgoing_files, part_plan, registry
from shared.channels.base import BotRequest, Button, Outgoing
from shared.channels.part_plan import PartPlan, Render
from shared.core import logs
from shared.core.content import Reaction
from shared.core.errors import (
    ChatGone,
    ChatMoved,
    OutcomeUnknown,
    PlatformDown,
    RateLimited,
    RetryableError,
    TokenRefused,
    describe,
    unexpected,
)
from shared.core.settings import Settings
from shared.core.text import redaction
from shared.core.time import backoff
from shared.db.platforms import channel_pauses, unknown_sends
from shared.db.platforms.channel_outages import ChannelOutage
from shared.db.platforms.channel_pauses import ChannelPause
from shared.db.queue import responses
from shared.db.queue.responses import FailureCode, Response, ResponseVerdict
from shared.db.roster import chats
from shared.queue import outages, series, unsent_files

log = logs.get()

_UNNAMED_WAIT_MS = 1000  # where the platform asks for a wait and names none
LONGEST_SEND_MS = 60_000  # which a send may take, before it counts as one without an answer
_HOUR_MS = 60 * 60 * 1000
_LONGEST_WAIT_MS = 24 * 60 * 60 * 1000
_GIVEN_UP = "give_up"  # the token of a claim that lives within one transaction
_GROWTH = 4  # of the waits between attempts: with the default settings five attempts span 2 to 7 minutes
_LONGEST_REPEAT_WAIT_MS = 120_000  # a platform recognises a repetition only for some minutes: Discord by its nonce
_FIRST_CHECK_MS = 60_000  # of a token that the platform refused, and the longest wait between two checks
_LONGEST_CHECK_WAIT_MS = 10 * 60_000


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """How often a send is tried, with which waits, and what happens after an unknown outcome.

    Attributes:
        unknown_sends: ``resend`` (the person may get it twice) or ``hold`` (perhaps not at all; the row is dead).
        outage_limit_ms: how long a response waits for its platform, with no attempt counted, before it is dead.
        jitter: in [0, 1), spreads the waits.
    """

    max_attempts: int
    base_ms: int
    cap_ms: int
    unknown_sends: str
    jitter: float
    outage_limit_ms: int = 24 * _HOUR_MS

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The operator's settings, with fresh jitter."""
        return cls(
            max_attempts=settings.max_attempts,
            base_ms=settings.retry_base_ms,
            cap_ms=settings.retry_cap_ms,
            unknown_sends=settings.unknown_sends,
            jitter=random.random(),  # noqa: S311 - spreads waits, keeps no secret
            outage_limit_ms=int(settings.outage_limit_hours * _HOUR_MS),
        )


@dataclass(frozen=True, slots=True)
class Sending:
    """A claimed response, with what other rows say about its delivery.

    Attributes:
        is_first: no response to the same platform event has gone out yet.
        edits: the platform's id of the message that it replaces, or None.
        target: the platform's id of the message that it reacts to, or None.
    """

    response: Response
    is_first: bool
    edits: str | None = None
    target: str | None = None

    @property
    def reaction(self) -> Reaction | None:
        """The reaction that the response is; None: it is a message."""
        return self.response.content.get("reaction")

    @property
    def emoji(self) -> str | None:
        """Of the reaction; None: our reaction is taken back."""
        return self.reaction["emoji"] if self.reaction is not None else None

    @property
    def ends_wait(self) -> bool:
        """The response is no message: its event gets no answer."""
        return bool(self.response.content.get("ends_wait"))

    def plan(self, render: Render) -> PartPlan:
        """The parts that go out.

        Raises:
            LookupError, TypeError, ValueError: the row's files can't be used.
        """
        response = self.response
        files = outgoing_files.decode(response.files)
        return PartPlan(render, response.message, files, response.cuts, part_plan.read(response.unsent_files))

    def is_repeatable(self, index: int) -> bool:
        """Whether part *index* can be sent twice without harm: it changes a message, or sets a reaction."""
        return self.reaction is not None or (index == 0 and self.edits is not None)

    def outgoing(self, index: int, *, of: int) -> Outgoing:
        """Where part *index* of *of* goes: the first part replaces the edited message, the last has the buttons."""
        response, content = self.response, self.response.content
        edits = self.edits if index == 0 else None
        is_for_presser = "edits" not in content
        return Outgoing(
            response_id=response.id,
            part_index=index,
            platform_id=response.platform_id,
            thread_id=response.thread_id,
            reply_to=content.get("reply_to"),
            context=content.get("context") or {},
            asked_at_ms=content.get("asked_at", response.created_at),
            is_first=self.is_first and index == 0,
            is_last=index == of - 1,
            buttons=tuple(Button(*pair) for pair in content.get("buttons", ())) if index == of - 1 else (),
            edits=edits,
            click=content.get("click") if is_for_presser or edits else None,
            bot_request=BotRequest(*content["bot_request"]) if "bot_request" in content else None,
        )


def claim(conn: apsw.Connection, response_id: int, *, token: str, now_ms: int, lease_ms: int) -> Sending | None:
    """Claim one head; see ``responses.claim``."""
    response = responses.claim(conn, response_id, token=token, now_ms=now_ms, lease_ms=lease_ms)
    if response is None:
        return None
    is_first = not responses.was_answered(conn, response)
    edits = _edited(conn, response) if "edits" in response.content else None
    target = _target(conn, response) if "reaction" in response.content else None
    return Sending(response, is_first, edits, target)


def _target(conn: apsw.Connection, response: Response) -> str | None:
    """The platform's id of the message that the response reacts to; of one of our own, as it is known by now."""
    reaction = response.content["reaction"]
    row = reaction.get("row")
    return reaction.get("message_id") if row is None else responses.sent_as(conn, row, chat_id=response.chat_id)


def _edited(conn: apsw.Connection, response: Response) -> str | None:
    """The platform's id of the edited message: named by our response's id, by that id, or by the pressed button."""
    named = response.content["edits"]
    if isinstance(named, int):
        named = responses.sent_as(conn, named, chat_id=response.chat_id)
    pressed = (response.content.get("click") or {}).get("message_id")
    return str(named) if named else pressed


def move_to_opened_chat(conn: apsw.Connection, response: Response, platform_id: str, *, now_ms: int) -> None:
    """The platform has opened the response's chat as *platform_id*: it waits again, and goes out there in its turn.

    Where they had written there before, that chat is the one, and other responses may stand before this one.

    Raises:
        ClaimLost: the claim lost its lease; the caller's transaction must roll back.
    """
    responses.release(conn, response)
    chats.move(conn, response.channel, response.platform_id, platform_id, now_ms=now_ms)


def judge(response: Response, error: Exception, policy: DeliveryPolicy, *, now_ms: int) -> ResponseVerdict:
    """Decide, without a side effect: a retry, and from when, or the end."""
    reason = redaction.redact(str(error))
    decided = partial(ResponseVerdict, reason=reason, failure=_code(error))
    held = policy.unknown_sends == "hold" and _may_have_arrived(error) and not _can_be_found(response, error)
    if isinstance(error, RateLimited):
        return _limited(response, error.retry_after_ms or 0, reason, policy, now_ms=now_ms)
    if isinstance(error, PlatformDown) and not held:
        return _down(response, error, reason, policy, now_ms=now_ms)
    attempts = response.retry_count + 1
    if held or not isinstance(error, RetryableError) or attempts >= policy.max_attempts:
        return decided(dead=True, retry_count=attempts, deliver_after=None)
    delay = error.retry_after_ms
    if delay is None:
        longest_ms = policy.cap_ms if _may_have_arrived(error) else min(policy.cap_ms, _LONGEST_REPEAT_WAIT_MS)
        delay = backoff.delay_ms(
            attempts, base_ms=policy.base_ms, cap_ms=longest_ms, jitter=policy.jitter, growth=_GROWTH
        )
    delay = min(delay, _LONGEST_WAIT_MS)
    return decided(dead=False, retry_count=attempts, deliver_after=now_ms + delay)


def _may_have_arrived(error: Exception) -> bool:
    """Whether the platform may have carried out the send, and another one could be a second message."""
    if isinstance(error, PlatformDown):
        return error.may_have_arrived
    return isinstance(error, OutcomeUnknown) and not error.is_repeatable


def _can_be_found(response: Response, error: Exception) -> bool:
    """Whether the platform is asked for evidence before this part is sent again."""
    was_asked = isinstance(error, OutcomeUnknown) and error.no_evidence
    return registry.traits(response.channel).finds_sent and not was_asked


def _limited(response: Response, asked_ms: int, reason: str, policy: DeliveryPolicy, *, now_ms: int) -> ResponseVerdict:
    """The platform asked for a wait: with no attempt counted, within the limit for all waits in a row."""
    since = _begin_of_outage(response, now_ms=now_ms)
    left_ms = since + policy.outage_limit_ms - now_ms
    decided = partial(ResponseVerdict, retry_count=response.retry_count, failure="rate_limited", unsent_since=since)
    if left_ms <= 0:
        given_up = f"{reason}; given up after {_hours(policy)} of waits that the platform asked for"
        return decided(dead=True, deliver_after=None, reason=given_up)
    due = now_ms + min(asked_ms or _UNNAMED_WAIT_MS, left_ms)
    return decided(dead=False, deliver_after=due, reason=reason)


def _down(
    response: Response, error: PlatformDown, reason: str, policy: DeliveryPolicy, *, now_ms: int
) -> ResponseVerdict:
    """The platform can't work: wait for it, with no attempt counted, within the limit."""
    since = _begin_of_outage(response, now_ms=now_ms)
    elapsed_ms = now_ms - since
    decided = partial(ResponseVerdict, retry_count=response.retry_count, failure=_code(error), unsent_since=since)
    if elapsed_ms >= policy.outage_limit_ms:
        return decided(dead=True, deliver_after=None, reason=f"{reason}; given up after {_hours(policy)}")
    due = outages.next_probe_ms(elapsed_ms, base_ms=policy.base_ms, jitter=policy.jitter) + now_ms
    return decided(dead=False, deliver_after=due, reason=reason)


def _hours(policy: DeliveryPolicy) -> str:
    return f"{policy.outage_limit_ms / _HOUR_MS:g} hours"


def _begin_of_outage(response: Response, *, now_ms: int) -> int:
    """The first of the failures in a row that cost no attempt.

    Nothing was tried while the machine slept or the channel was paused, so the row begins anew after that.
    """
    since = response.unsent_since
    slept = backoff.has_slept(response.deliver_after, now_ms=now_ms)
    return now_ms if since is None or since > now_ms or slept else since


def _code(error: Exception) -> FailureCode:
    if isinstance(error, RateLimited):
        return "rate_limited"
    return "outcome_unknown" if _may_have_arrived(error) else "error"


def acknowledge(
    conn: apsw.Connection,
    response: Response,
    parts: tuple[str | None, ...],
    also: Sequence[str] = (),
    unsent: Sequence[str] = (),
    *,
    now_ms: int,
) -> None:
    """All of it has reached the platform; a recurring one hands over to its next occurrence.

    Args:
        also: see ``responses.part_sent``.
        unsent: what the person was told about files that were not sent; the agent is told too.

    Raises:
        ClaimLost: the claim lost its lease; the caller's transaction must roll back.
    """
    responses.ack(conn, response, parts, also, now_ms=now_ms)
    unsent_files.tell_agent(conn, response, unsent, agent=response.agent, session_id=response.session_id, now_ms=now_ms)
    series.advance_responses(conn, now_ms=now_ms)


def fail(
    conn: apsw.Connection,
    response: Response,
    error: Exception,
    policy: DeliveryPolicy,
    *,
    now_ms: int,
    tried_from: int | None = None,
) -> ResponseVerdict:
    """Write the verdict on the row, and on the chat what the platform says of it: a wait, a new id, or that it is gone.

    A platform that can't work holds the whole channel. The response that found it out is due with the next probe.

    Args:
        tried_from: when the send may have begun, in ms UTC; None: within the longest time that a send may take.

    Raises:
        ClaimLost: the claim lost its lease; the caller's transaction must roll back.
    """
    since = responses.unsent_since(conn, response.id)  # a part that went out since the claim has cleared it
    known = replace(response, unsent_since=since)
    error = outages.own_failure(conn, known, error)
    verdict = judge(known, error, policy, now_ms=now_ms)
    if isinstance(error, PlatformDown):
        outage = outages.note(conn, response.channel, error, verdict.reason, policy, now_ms=now_ms)
        if not verdict.dead:
            verdict = replace(verdict, deliver_after=outage.probe_at)
    responses.fail(conn, response, verdict, now_ms=now_ms)
    if verdict.failure == "outcome_unknown" and _can_be_found(response, error):
        part = responses.sent_count(conn, response.id)
        begun = response.created_at if response.files else now_ms - LONGEST_SEND_MS  # an upload may take minutes
        unknown_sends.note(conn, response.id, part, tried_from=tried_from or begun)
    if isinstance(error, RateLimited) and verdict.deliver_after is not None:
        chats.pause_sending(conn, response.chat_id, until_ms=verdict.deliver_after)
    if isinstance(error, ChatMoved):
        chats.move(conn, response.channel, response.platform_id, error.new_platform_id, now_ms=now_ms)
    if isinstance(error, ChatGone):
        chats.set_status(conn, response.channel, response.platform_id, "inactive", now_ms=now_ms)
    if verdict.dead:
        series.advance_responses(conn, now_ms=now_ms)
    return verdict


def give_up(conn: apsw.Connection, outage: ChannelOutage, policy: DeliveryPolicy, *, now_ms: int, limit: int) -> int:
    """End up to *limit* responses that have waited for the platform longer than the policy allows; how many."""
    past_ms = now_ms - policy.outage_limit_ms
    late = responses.waiting_since(
        conn, outage.channel, outage_began_at=outage.began_at, past_ms=past_ms, now_ms=now_ms, limit=limit
    )
    reason = f"{outage.reason}; given up after {_hours(policy)}"
    for id_, failure in late:
        response = responses.claim(conn, id_, token=_GIVEN_UP, now_ms=now_ms, lease_ms=_HOUR_MS)
        if response is not None:
            verdict = ResponseVerdict(True, response.retry_count, None, reason, failure or "error")
            responses.fail(conn, response, verdict, now_ms=now_ms)
    if late:
        series.advance_responses(conn, now_ms=now_ms)
    return len(late)


def hold(conn: apsw.Connection, response: Response, error: TokenRefused, *, now_ms: int) -> bool:
    """The platform refuses our token: pause the channel; the response waits in its place. False: it was paused before.

    Raises:
        ClaimLost: the claim lost its lease; the caller's transaction must roll back.
    """
    responses.release(conn, response)
    return pause(conn, response.channel, error, now_ms=now_ms)


def pause(conn: apsw.Connection, channel: str, error: TokenRefused, *, now_ms: int) -> bool:
    """The platform refuses our token: the channel sends nothing until it is accepted. False: it was paused before."""
    reason = redaction.redact(str(error))
    return channel_pauses.pause(conn, channel, reason, check_at=now_ms + _FIRST_CHECK_MS, now_ms=now_ms)


def check_again(conn: apsw.Connection, pause: ChannelPause, reason: str, *, now_ms: int) -> None:
    """The token of a paused channel was not accepted: check it again later, the longer the pause the later."""
    wait_ms = backoff.outage_delay_ms(
        now_ms - pause.paused_at, shortest_ms=_FIRST_CHECK_MS, longest_ms=_LONGEST_CHECK_WAIT_MS
    )
    channel_pauses.postpone(conn, pause.channel, redaction.redact(reason), check_at=now_ms + wait_ms)


def set_aside(
    conn: apsw.Connection, response_id: int, error: Exception, policy: DeliveryPolicy, *, now_ms: int
) -> None:
    """A pending response whose row can't be used: a failed attempt, which its chat waits for as for any other."""
    response = responses.readable(conn, response_id)
    if response is None:
        return
    reason = f"the row can't be used: {describe(error)}; correct the row, then retry the response"
    verdict = judge(response, RetryableError(reason), policy, now_ms=now_ms)
    responses.set_aside(conn, response, replace(verdict, failure="unreadable"), now_ms=now_ms)
    log.error(
        "response.set_aside", response_id=response_id, reason=reason, dead=verdict.dead, exc_info=unexpected(error)
    )
    if verdict.dead:
        series.advance_responses(conn, now_ms=now_ms)


def rescue(
    conn: apsw.Connection,
    channel: str,
    policy: DeliveryPolicy,
    *,
    now_ms: int,
    everything: bool = False,
    limit: int | None = None,
) -> int:
    """End the sends with an expired lease: their process is gone, and the outcome of the part under way is unknown.

    *everything*: all sends of the channel, of any process. *limit*: so many of them. Returns how many it ended.
    """
    lost = [response for response, lease in responses.delivering(conn, channel) if everything or lease < now_ms][:limit]
    for response in lost:
        why = RetryableError if _is_harmless(conn, response) else OutcomeUnknown
        gone = why("the process that was sending went away")
        fail(conn, response, gone, policy, now_ms=now_ms, tried_from=response.created_at)
    return len(lost)


def _is_harmless(conn: apsw.Connection, response: Response) -> bool:
    """Whether the call under way can be made again, whatever became of it: no message went out, or it changes one."""
    sending = Sending(response, is_first=False, edits=_edited(conn, response) if "edits" in response.content else None)
    return response.opens_for is not None or sending.is_repeatable(len(response.parts))
