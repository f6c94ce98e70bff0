"""The end of a turn: settled whole, or failed with a verdict on each message. Each verb needs one transaction."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import apsw

from shared.core import backoff, logs, redaction
from shared.core.errors import OF_ONE_ROW, describe, unexpected
from shared.core.failures import FailureCode
from shared.core.settings import Settings
from shared.db.engine.connection import savepoint
from shared.db.queue import agent_messages, claims, events, responses, sessions
from shared.db.queue.agent_messages import AgentMessage
from shared.db.queue.claims import Claim, MessageVerdict
from shared.db.queue.message_row import Message
from shared.queue import endings, mailbox, replies, series

log = logs.get()

APOLOGY = "Sorry, I could not answer this. It has been noted for the operator; you may try again later."
NO_REASON = "the agent failed and gave no reason"
PROCESS_GONE = "the process that ran the turn went away"

_SHORTEST_WAIT_MS = 1000  # a wait costs no attempt: a wait of 0 ms would repeat the turn for ever, at full speed
LONGEST_WAITS_MS = 24 * 60 * 60 * 1000  # of one wait, and of all waits in a row


@dataclass(frozen=True, slots=True)
class TurnReply:
    """One reply of a turn, to one of its messages."""

    text: str
    asked: Message


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a turn failed. *wait_ms*: a wait that the provider asked for (1 s to a day); it costs no attempt."""

    reason: str
    retryable: bool = True
    wait_ms: int | None = None
    code: FailureCode = "error"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How many attempts, and the waits between them; *jitter* in [0, 1) spreads the waits."""

    max_attempts: int
    base_ms: int
    cap_ms: int
    jitter: float

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The operator's settings, with fresh jitter."""
        jitter = random.random()  # noqa: S311 - spreads waits, keeps no secret
        return cls(settings.max_attempts, settings.retry_base_ms, settings.retry_cap_ms, jitter)


def settle(
    conn: apsw.Connection, claim: Claim, turn_replies: Sequence[TurnReply], continuation: str | None, *, now_ms: int
) -> None:
    """The turn succeeded: completion, answers, history, events and next occurrences, all in the caller's transaction.

    Raises:
        ClaimLost: the claim lost its lease; the caller's transaction must roll back.
    """
    claims.complete(conn, claim, now_ms=now_ms)
    lines = [*_asked(claim), *(_answered(claim, each, now_ms) for each in turn_replies)]
    agent_messages.append(conn, _one_after_the_other(lines))
    news = _outward(conn, claim.agent, claim.session_id, turn_replies, now_ms)
    responses.enqueue_many(conn, news, now_ms=now_ms)
    ended_ms = now_ms + max(0, len(turn_replies) - 1)  # not before the last response
    answered_ids = {each.asked.id for each in turn_replies}
    endings.enqueue(conn, [each for each in claim.asked if each.id not in answered_ids], now_ms=ended_ms + 1)
    sessions.touch(conn, claim.session_id, continuation=continuation, now_ms=now_ms)
    first = claim.asked[0]
    events.append(
        conn,
        "chain_step_done",
        now_ms=ended_ms,
        message_id=first.message_id,
        agent=claim.agent,
        channel=first.channel,
        session_id=claim.session_id,
        data={"batch": [message.message_id for message in claim.batch], "answers": len(turn_replies)},
    )
    series.advance_messages(conn, now_ms=now_ms)


def _asked(claim: Claim) -> list[AgentMessage]:
    """The history lines of the batch, with the instants of the messages and not of the answer."""
    return [
        AgentMessage(
            claim.agent,
            "user",
            each.channel,
            each.sender,
            each.message_id,
            each.message,
            max(each.created_at, each.scheduled_at or 0),
        )
        for each in claim.batch
    ]


def _one_after_the_other(lines: Sequence[AgentMessage]) -> Iterator[AgentMessage]:
    """The lines with instants that grow, by which TinyAGI's office puts them in order."""
    at_ms = 0
    for line in lines:
        at_ms = max(line.created_at, at_ms + 1)
        yield line._replace(created_at=at_ms)


def _answered(claim: Claim, reply: TurnReply, now_ms: int) -> AgentMessage:
    asked = reply.asked
    return AgentMessage(claim.agent, "assistant", asked.channel, claim.agent, asked.message_id, reply.text, now_ms)


def _outward(
    conn: apsw.Connection, agent: str, session_id: int, turn_replies: Sequence[TurnReply], now_ms: int
) -> list[responses.NewResponse]:
    """The responses to people; replies to agents and rooms are stored here, a millisecond apart, and return none."""
    places = [
        (mailbox.answer(conn, each.asked, each.text, now_ms=at_ms), each.text)
        for at_ms, each in enumerate(turn_replies, now_ms)
    ]
    return [
        replies.response(place, text, agent=agent, session_id=session_id) for place, text in places if place is not None
    ]


def judge(message: Message, failure: Failure, policy: RetryPolicy, *, now_ms: int) -> MessageVerdict:
    """Decide, without a side effect: a retry, and from when, or the end."""
    reason = redaction.redact(failure.reason.strip()) or NO_REASON
    if failure.wait_ms is not None:
        return _wait(message, failure.wait_ms, reason, now_ms=now_ms)
    attempts = message.retry_count + 1
    if not failure.retryable or attempts >= policy.max_attempts:
        return MessageVerdict(True, attempts, None, reason, failure.code)
    delay = backoff.delay_ms(attempts, base_ms=policy.base_ms, cap_ms=policy.cap_ms, jitter=policy.jitter)
    return MessageVerdict(False, attempts, now_ms + delay, reason, failure.code)


def _wait(message: Message, wait_ms: int, reason: str, *, now_ms: int) -> MessageVerdict:
    """A wait costs no attempt. So that it is never for ever, all waits in a row end after a day."""
    since = min(now_ms if message.waits_since is None else message.waits_since, now_ms)
    left_ms = since + LONGEST_WAITS_MS - now_ms
    decided = partial(MessageVerdict, retry_count=message.retry_count, failure="rate_limited", waits_since=since)
    if left_ms <= 0:
        given_up = f"{reason}; given up after {LONGEST_WAITS_MS // 3_600_000} hours of waits that the agent asked for"
        return decided(dead=True, process_after=None, reason=given_up)
    due = now_ms + min(max(wait_ms, _SHORTEST_WAIT_MS), left_ms)
    return decided(dead=False, process_after=due, reason=reason)


def fail(conn: apsw.Connection, claim: Claim, failure: Failure, policy: RetryPolicy, *, now_ms: int) -> list[Message]:
    """Fail the turn. The sender of a message that is now dead gets one sentence.

    Returns:
        The messages that are dead.

    Raises:
        ClaimLost: the claim lost its lease; the caller's transaction must roll back.
    """
    verdicts = {message.id: judge(message, failure, policy, now_ms=now_ms) for message in claim.asked}
    claims.fail(conn, claim, verdicts, now_ms=now_ms)
    dead = [message for message in claim.asked if verdicts[message.id].dead]
    for place, message in enumerate(dead):  # a millisecond apart, like the answers of a turn
        _apologise(conn, message, now_ms=now_ms + place)
    series.advance_messages(conn, now_ms=now_ms)
    return dead


def _apologise(conn: apsw.Connection, message: Message, *, now_ms: int) -> None:
    """Tell the sender of a dead message. Where its row does not say how, it is dead all the same."""
    try:
        with savepoint(conn):
            apology = [TurnReply(APOLOGY, message)]
            news = _outward(conn, message.agent, message.session_id, apology, now_ms)
            responses.enqueue_many(conn, news, now_ms=now_ms)
    except OF_ONE_ROW:
        log.exception("turn.sender_not_told", message_id=message.message_id, agent=message.agent)


def set_aside(conn: apsw.Connection, row_id: int, error: Exception, policy: RetryPolicy, *, now_ms: int) -> None:
    """A pending message whose row can't be used: a failed attempt, which its session waits for as for any other.

    Context is dead at once, because nothing waits for it.
    """
    message = claims.readable(conn, row_id)
    if message is None:
        return
    reason = f"the row can't be used: {describe(error)}; correct the row, then retry the message"
    failure = Failure(reason, retryable=message.trigger, code="unreadable")
    verdict = judge(message, failure, policy, now_ms=now_ms)
    claims.set_aside(conn, message, verdict, now_ms=now_ms)
    log.error(
        "message.set_aside",
        message_id=message.message_id,
        agent=message.agent,
        reason=reason,
        dead=verdict.dead,
        exc_info=unexpected(error),
    )
    if verdict.dead and message.trigger:
        _apologise(conn, message, now_ms=now_ms)
        series.advance_messages(conn, now_ms=now_ms)


def release(conn: apsw.Connection, claim: Claim, *, now_ms: int) -> None:
    """The turn was interrupted: give its messages back, as if no turn had taken them.

    Raises:
        ClaimLost: the turn no longer holds its messages; the caller's transaction must roll back.
    """
    claims.release(conn, claim, now_ms=now_ms)


def rescue(conn: apsw.Connection, policy: RetryPolicy, *, now_ms: int, everything: bool = False) -> list[Claim]:
    """Fail the turns with an expired lease: their process is gone, or hangs. *everything*: all turns, of any process.

    A kill counts as an attempt: otherwise a message that kills its agent would do so for ever.
    """
    lost = [claim for claim, lease in claims.running(conn) if everything or lease < now_ms]
    failure = Failure(PROCESS_GONE, code="process_gone")
    for claim in lost:
        fail(conn, claim, failure, policy, now_ms=now_ms)
    return lost
