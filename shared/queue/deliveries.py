"""The delivery of responses: what each part carries, and what its end writes. ``delivery_verdicts.py`` decides."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import apsw
import msgspec

from shared.channels import outgoing_files, part_plan
from shared.channels.base import BotRequest, Button, Outgoing, Part, Poll
from shared.channels.part_plan import PartPlan, Render
from shared.core import logs
from shared.core.content import PollContent, Reaction
from shared.core.errors import (
    ChatGone,
    ChatMoved,
    OutcomeUnknown,
    PlatformDown,
    RateLimited,
    RetryableError,
    describe,
    unexpected,
)
from shared.db.platforms import unknown_sends
from shared.db.platforms.channel_outages import ChannelOutage
from shared.db.queue import responses
from shared.db.queue.responses import Response, ResponseVerdict
from shared.db.roster import chats
from shared.queue import agent_notes, series
from shared.queue.delivery_verdicts import DeliveryPolicy, counts_as_unknown, judge, limit_in_words
from shared.queue.platforms import outages

log = logs.get()

LONGEST_SEND_MS = 60_000  # which a send may take, before it counts as one without an answer
_GIVING_UP_MS = 60 * 60 * 1000  # the lease of that claim
_GIVEN_UP = "give_up"  # the token of a claim that lives within one transaction


class Sending(msgspec.Struct, frozen=True):
    """A claimed response, with what other rows say about its delivery.

    Attributes:
        is_first: no response to the same platform event has gone out yet.
        edits: the platform's id of the message that it replaces, or None.
        target: the platform's id of the message that it reacts to or removes, or None.
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
    def topic(self) -> str | None:
        """The name of the topic that the response begins, as its first part; the others are written into it."""
        return self.response.content.get("topic")

    @property
    def removes(self) -> bool:
        """The response is no message: it removes an earlier one."""
        return "removes" in self.response.content

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
        if "poll" in response.content or "sticker" in response.content:
            return PartPlan(_as_one_part, response.message)
        if self.topic is not None:
            topic = Part(self.topic)
            return PartPlan(lambda text: (topic, *render(text)), response.message, (), response.cuts)
        files = outgoing_files.decode(response.files)
        return PartPlan(render, response.message, files, response.cuts, part_plan.read(response.unsent_files))

    def is_repeatable(self, index: int) -> bool:
        """Whether part *index* can be sent twice without harm: it changes or removes a message, or sets a reaction."""
        return self.reaction is not None or self.removes or (index == 0 and self.edits is not None)

    def outgoing(self, index: int, *, of: int, topic_id: str | None = None) -> Outgoing:
        """Where part *index* of *of* goes: the first part replaces the edited message, the last has the buttons.

        Args:
            topic_id: of the topic that the response began.
        """
        response, content = self.response, self.response.content
        edits = self.edits if index == 0 else None
        is_for_presser = "edits" not in content
        return Outgoing(
            response_id=response.id,
            part_index=index,
            platform_id=response.platform_id,
            thread_id=topic_id or response.thread_id,
            reply_to=content.get("reply_to"),
            context=content.get("context") or {},
            asked_at_ms=content.get("asked_at", response.created_at),
            is_first=self.is_first and index == 0,
            is_last=index == of - 1,
            buttons=tuple(Button(*pair) for pair in content.get("buttons", ())) if index == of - 1 else (),
            edits=edits,
            click=content.get("click") if is_for_presser or edits else None,
            bot_request=BotRequest(*content["bot_request"]) if "bot_request" in content else None,
            poll=_poll(content["poll"]) if "poll" in content else None,
            sticker=content.get("sticker"),
        )


def _as_one_part(text: str) -> tuple[Part, ...]:
    """A response that is sent as something other than text. Its text says the same, for readers of the history."""
    return (Part(text),)


def _poll(stored: PollContent) -> Poll:
    return Poll(stored["question"], tuple(stored["options"]), stored["is_multiple"], stored["hours"])


def claim(conn: apsw.Connection, response_id: int, *, token: str, now_ms: int, lease_ms: int) -> Sending | None:
    """Claim one head; see ``responses.claim``."""
    take = partial(responses.claim, conn, response_id, token=token, now_ms=now_ms, lease_ms=lease_ms)
    response = take()
    if response is None and series.pass_over_responses(conn, [response_id], now_ms=now_ms):
        response = take()  # its series may go on with an instant that is due now
    if response is None:
        return None
    is_first = not responses.was_answered(conn, response)
    edits = _edited(conn, response) if "edits" in response.content else None
    target = _target(conn, response)
    return Sending(response, is_first, edits, target)


def _target(conn: apsw.Connection, response: Response) -> str | None:
    """The platform's id of the message that the response reacts to or removes; of our own, as it is known by now."""
    reaction = response.content.get("reaction")
    if reaction is None:
        removed = response.content.get("removes")
        return None if removed is None else responses.sent_as(conn, removed, chat_id=response.chat_id)
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
        also: see ``responses.record_part``.
        unsent: what the person was told about files that were not sent; the agent is told too.

    Raises:
        ClaimLost: the claim lost its lease; the caller's transaction must roll back.
    """
    responses.ack(conn, response, parts, also, now_ms=now_ms)
    agent_notes.leave_unsent_files(
        conn,
        unsent,
        agent=response.agent,
        session_id=response.session_id,
        origin=agent_notes.origin_of(response),
        now_ms=now_ms,
    )
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
    is_unknown = counts_as_unknown(response, error)
    error = outages.own_failure(conn, known, error)
    unanswered = _note_unknown(conn, response, tried_from, now_ms=now_ms) if is_unknown else 0
    verdict = judge(known, error, policy, now_ms=now_ms, unanswered=unanswered)
    if isinstance(error, PlatformDown):
        outage = outages.note(conn, response.channel, error, verdict.reason, policy, now_ms=now_ms)
        if not verdict.dead:
            verdict = replace(verdict, deliver_after=outage.probe_at)
    responses.fail(conn, response, verdict, now_ms=now_ms)
    if isinstance(error, RateLimited) and verdict.deliver_after is not None:
        chats.pause_sending(conn, response.chat_id, until_ms=verdict.deliver_after, now_ms=now_ms)
    if isinstance(error, ChatMoved):
        chats.move(conn, response.channel, response.platform_id, error.new_platform_id, now_ms=now_ms)
    if isinstance(error, ChatGone):
        chats.set_status(conn, response.channel, response.platform_id, "inactive", now_ms=now_ms)
    if verdict.dead:
        _end(conn, response, verdict, now_ms=now_ms)
    return verdict


def _end(conn: apsw.Connection, response: Response, verdict: ResponseVerdict, *, now_ms: int) -> None:
    """The response is dead: its agent reads about it in its next turn, and a series continues."""
    agent_notes.leave_undelivered(conn, response, verdict, now_ms=now_ms)
    series.advance_responses(conn, now_ms=now_ms)


def _note_unknown(conn: apsw.Connection, response: Response, tried_from: int | None, *, now_ms: int) -> int:
    """The part under way may have arrived; how many of its sends got no answer."""
    part = responses.sent_count(conn, response.id)
    if part is None:
        return 0
    begun = response.created_at if response.files else now_ms - LONGEST_SEND_MS  # an upload may take minutes
    return unknown_sends.note(conn, response.id, part, tried_from=tried_from or begun, now_ms=now_ms)


def give_up(conn: apsw.Connection, outage: ChannelOutage, policy: DeliveryPolicy, *, now_ms: int, limit: int) -> int:
    """End up to *limit* responses that have waited for the platform longer than the policy allows; how many."""
    past_ms = now_ms - policy.outage_limit_ms
    late = responses.waiting_since(
        conn, outage.channel, outage_began_at=outage.began_at, past_ms=past_ms, now_ms=now_ms, limit=limit
    )
    reason = f"{outage.reason}; given up after {limit_in_words(policy)}"
    for id_, failure in late:
        response = responses.claim(conn, id_, token=_GIVEN_UP, now_ms=now_ms, lease_ms=_GIVING_UP_MS)
        if response is not None:
            verdict = ResponseVerdict(True, response.retry_count, None, reason, failure or "error")
            responses.fail(conn, response, verdict, now_ms=now_ms)
            _end(conn, response, verdict, now_ms=now_ms)
    return len(late)


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
        _end(conn, response, verdict, now_ms=now_ms)


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
        gone = why("the process that was sending ended")
        fail(conn, response, gone, policy, now_ms=now_ms, tried_from=response.created_at)
    return len(lost)


def _is_harmless(conn: apsw.Connection, response: Response) -> bool:
    """Whether the call under way can be made again, whatever became of it: no message went out, or it changes one."""
    sending = Sending(response, is_first=False, edits=_edited(conn, response) if "edits" in response.content else None)
    return response.opens_for is not None or sending.is_repeatable(len(response.parts))
