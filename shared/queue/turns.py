"""The end of a turn: settled whole, or failed with a verdict on each message. Each verb needs one transaction."""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import apsw

from shared.agents.answer_tags import HandOff
from shared.channels.base import OutgoingFile
from shared.core import failures, logs
from shared.core.errors import OF_ONE_ROW, describe, unexpected
from shared.core.failures import FailureCode
from shared.core.settings import Settings
from shared.core.text import redaction
from shared.core.time import backoff
from shared.db.engine.connection import savepoint
from shared.db.queue import agent_messages, claims, events, responses, sessions, spoken
from shared.db.queue.agent_messages import AgentMessage
from shared.db.queue.claims import Claim, MessageVerdict
from shared.db.queue.message_row import SUSPECT_FROM, Message
from shared.db.roster import agent_pauses, agents
from shared.queue import endings, replies, series, unsent_files
from shared.queue.teamwork import chains, handoffs, mailbox
from shared.queue.teamwork.chains import MailLimits

log = logs.get()

APOLOGY = "Sorry, I could not answer this. It has been noted for the operator; you may try again later."
CUT_OFF = "Sorry, I was cut off before I could finish this. It has been noted for the operator."
NO_REASON = "the agent failed and gave no reason"
STOPPED = "dispatch stopped"
PROCESS_GONE = "the process that ran the turn went away"
HOST_LOST = "the host that ran the turn was lost, or all of Postroom there was stopped"

_LOST_DISPATCH, _LOST_HOST = 10, 1  # of suspicion; twice may be chance, twenty times a host that gives out
_CERTAIN = 2 * SUSPECT_FROM  # a program that takes its host down must end too

_SHORTEST_WAIT_MS = 1000  # a wait costs no attempt: a wait of 0 ms would repeat the turn for ever, at full speed
LONGEST_WAITS_MS = 24 * 60 * 60 * 1000  # of one wait, and of all waits in a row


@dataclass(frozen=True, slots=True)
class TurnReply:
    """One reply of a turn, to one of its messages.

    Attributes:
        text: for the place that the message came from; blank where all of the reply goes elsewhere.
        tags: what the agent sends elsewhere.
        said: what its history keeps; None: the text.
        files: copies on this host, which go out with it.
        problems: the sentences of *text* about files that are not sent.
    """

    text: str
    asked: Message
    tags: tuple[HandOff, ...] = ()
    said: str | None = None
    files: tuple[OutgoingFile, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def is_blank(self) -> bool:
        """Whether nothing is left for the place that the message came from."""
        return not self.text.strip() and not self.files


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a turn failed. *wait_ms*: a wait that the provider asked for (1 s to a day); it costs no attempt.

    *until_ms*: as a wait, until this instant (ms UTC). *is_host_lost*: with ``process_gone``, more than dispatch went.
    """

    reason: str
    retryable: bool = True
    wait_ms: int | None = None
    code: FailureCode = "error"
    until_ms: int | None = None
    is_host_lost: bool = False

    def wait_from(self, now_ms: int) -> int | None:
        """The wait from this instant on; None: none was asked for."""
        return self.wait_ms if self.until_ms is None else max(0, self.until_ms - now_ms)


@dataclass(frozen=True, slots=True)
class Said:
    """Whether the turn that ended had spoken, and whether its agent's row lets it go on: once."""

    has_spoken: bool = False
    may_go_on: bool = False


NOTHING = Said()


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


_ONCE = RetryPolicy(max_attempts=1, base_ms=0, cap_ms=0, jitter=0.0)


def settle(
    conn: apsw.Connection,
    claim: Claim,
    turn_replies: Sequence[TurnReply],
    continuation: str | None,
    *,
    provider: str | None = None,
    begun_anew: bool = False,
    provider_before: str | None = None,
    limits: MailLimits = chains.LIMITS,
    now_ms: int,
) -> None:
    """The turn succeeded: completion, answers, hand-offs, history, events and next occurrences, in one transaction.

    Args:
        provider: whose continuation it is.
        begun_anew: the provider had lost the session, so this turn began a fresh one.
        provider_before: whose session was left, because the agent has another provider now.
        limits: of what agents write to each other.

    Raises:
        ClaimLost: the claim lost its lease; the caller's transaction must roll back.
    """
    claims.complete(conn, claim, now_ms=now_ms)
    lines = [*_asked(claim), *(_answered(claim, each, now_ms) for each in turn_replies)]
    agent_messages.append(conn, _one_after_the_other(lines))
    turn_replies = [_passed_on(conn, each, limits, now_ms) if each.tags else each for each in turn_replies]
    turn_replies = [each for each in turn_replies if not each.is_blank]
    news = _outward(conn, claim.agent, claim.session_id, turn_replies, now_ms)
    responses.enqueue_many(conn, news, now_ms=now_ms)
    for each in turn_replies:
        unsent_files.tell_agent(
            conn, each.asked, each.problems, agent=claim.agent, session_id=claim.session_id, now_ms=now_ms
        )
    ended_ms = now_ms + max(0, len(turn_replies) - 1)  # not before the last response
    answered_ids = {each.asked.id for each in turn_replies} or spoken.answered(conn, claim.token)
    endings.enqueue(conn, [each for each in claim.asked if each.id not in answered_ids], now_ms=ended_ms + 1)
    sessions.touch(conn, claim.session_id, continuation=continuation, provider=provider, now_ms=now_ms)
    first = claim.asked[0]
    if provider_before is not None:
        data: events.EventData = {"provider_before": provider_before, "provider": provider or ""}
        _note_session(conn, claim, "session_changed_provider", data, now_ms=now_ms)
    if begun_anew:
        _note_session(conn, claim, "session_begun_anew", None, now_ms=now_ms)
    events.append(
        conn,
        "chain_step_done",
        now_ms=ended_ms,
        message_id=first.message_id,
        agent=claim.agent,
        channel=first.channel,
        session_id=claim.session_id,
        data={"batch": [each.message_id for each in (*claim.batch, *claim.told)], "answers": len(turn_replies)},
    )
    series.advance_messages(conn, now_ms=now_ms)


def _note_session(
    conn: apsw.Connection, claim: Claim, type_: str, data: events.EventData | None, *, now_ms: int
) -> None:
    first = claim.asked[0]
    events.append(
        conn,
        type_,
        now_ms=now_ms,
        message_id=first.message_id,
        agent=claim.agent,
        channel=first.channel,
        session_id=claim.session_id,
        data=data,
    )


def _passed_on(conn: apsw.Connection, reply: TurnReply, limits: MailLimits, now_ms: int) -> TurnReply:
    """Send what the reply's tags say; the reply as it then stands for the place that the message came from."""
    done = handoffs.pass_on(conn, reply.asked, reply.text, reply.tags, limits=limits, now_ms=now_ms)
    texts = [reply.text, *done.here, *done.problems]
    is_of_person = reply.asked.kind == "chat" and reply.asked.from_agent is None
    if done.sent_to and is_of_person and not any(map(str.strip, texts)):
        texts.append(f"(Passed on to {', '.join(done.sent_to)}.)")
    return replace(reply, text="\n\n".join(filter(str.strip, texts)))


def _asked(claim: Claim) -> list[AgentMessage]:
    """The history lines of the batch, with the instants of the messages and not of the answer.

    A message whose turn goes on with what was said is in the history since that turn ended.
    """
    return [
        AgentMessage(
            claim.agent,
            "user",
            each.channel,
            each.sender,
            each.message_id,
            each.message or each.content.get("only_files", ""),
            max(each.created_at, each.scheduled_at or 0),
            claim.session_id,
        )
        for each in (*claim.batch, *claim.told)
        if not (each.trigger and claim.goes_on)
    ]


def _one_after_the_other(lines: Sequence[AgentMessage]) -> Iterator[AgentMessage]:
    """The lines with instants that grow, by which TinyAGI's office puts them in order."""
    at_ms = 0
    for line in lines:
        at_ms = max(line.created_at, at_ms + 1)
        yield line._replace(created_at=at_ms)


def _answered(claim: Claim, reply: TurnReply, now_ms: int) -> AgentMessage:
    asked = reply.asked
    said = reply.text if reply.said is None else reply.said
    return AgentMessage(
        claim.agent, "assistant", asked.channel, claim.agent, asked.message_id, said, now_ms, claim.session_id
    )


def _outward(
    conn: apsw.Connection, agent: str, session_id: int, turn_replies: Sequence[TurnReply], now_ms: int
) -> list[responses.NewResponse]:
    """The responses to people; replies to agents and rooms are stored here, a millisecond apart, and return none."""
    places = [
        (mailbox.answer(conn, each.asked, each.text, now_ms=at_ms), each)
        for at_ms, each in enumerate(turn_replies, now_ms)
    ]
    return [
        replies.response(place, each.text, agent=agent, session_id=session_id, files=each.files)
        for place, each in places
        if place is not None
    ]


def judge(
    message: Message,
    failure: Failure,
    policy: RetryPolicy,
    said: Said = NOTHING,
    *,
    is_alone: bool = True,
    now_ms: int,
) -> MessageVerdict:
    """Decide, without a side effect: a retry, and from when, or the end.

    Args:
        is_alone: no other message asked for the turn. Else its end for good proves nothing about this one.
    """
    reason = redaction.redact(failure.reason.strip()) or NO_REASON
    wait_ms = failure.wait_from(now_ms)
    attempts = message.retry_count + 1
    match failures.follows(
        failure.code,
        retryable=failure.retryable,
        has_wait=wait_ms is not None,
        has_spoken=said.has_spoken,
        may_go_on=said.may_go_on,
    ):
        case "keep":
            return MessageVerdict(False, message.retry_count, None, reason, failure.code)
        case "wait":
            return _wait(message, wait_ms or 0, reason, failure.code, now_ms=now_ms)
        case "go_on":
            delay = 0 if failure.code == "interrupted" else max(wait_ms or 0, _delay(attempts, policy))
            return MessageVerdict(False, attempts, now_ms + delay, reason, failure.code)
        case "retry" if failure.code == "process_gone" and not _is_to_blame(message, failure):
            return _lost(message, failure, reason)
        case "retry" if attempts < policy.max_attempts:
            due = now_ms + _delay(attempts, policy)
            return MessageVerdict(False, attempts, due, reason, failure.code, suspicion=_suspicion(message, failure))
        case _ if not (is_alone or said.has_spoken or message.spoken):  # what was said was about all of the batch
            return MessageVerdict(False, message.retry_count, None, reason, failure.code, runs_alone=True)
        case _:
            return MessageVerdict(True, attempts, None, reason, failure.code)


def _is_to_blame(message: Message, failure: Failure) -> bool:
    """Whether its agent's program took dispatch down, as far as the rows can tell: the message ran alone, as the only
    suspect, and dispatch went away again while its host stayed."""
    return message.is_suspect and (not failure.is_host_lost or (message.suspicion or 0) >= _CERTAIN)


def _suspicion(message: Message, failure: Failure) -> int:
    """What speaks against the message after this failure. Only losses in a row count."""
    if failure.code != "process_gone":
        return 0
    return (message.suspicion or 0) + (_LOST_HOST if failure.is_host_lost else _LOST_DISPATCH)


def _lost(message: Message, failure: Failure, reason: str) -> MessageVerdict:
    """The loss of dispatch is no attempt. A suspect runs alone from then on."""
    suspicion = _suspicion(message, failure)
    runs_alone = suspicion >= SUSPECT_FROM and message.spoken is None  # what was said was about all of the batch
    return MessageVerdict(
        *(False, message.retry_count, None, reason, failure.code), runs_alone=runs_alone, suspicion=suspicion
    )


def _delay(attempts: int, policy: RetryPolicy) -> int:
    return backoff.delay_ms(attempts, base_ms=policy.base_ms, cap_ms=policy.cap_ms, jitter=policy.jitter)


def _wait(message: Message, wait_ms: int, reason: str, code: FailureCode, *, now_ms: int) -> MessageVerdict:
    """A wait costs no attempt. So that it is never for ever, all waits in a row end after a day."""
    since = min(now_ms if message.waits_since is None else message.waits_since, now_ms)
    left_ms = since + LONGEST_WAITS_MS - now_ms
    failure: FailureCode = "rate_limited" if code == "error" else code
    decided = partial(MessageVerdict, retry_count=message.retry_count, failure=failure, waits_since=since)
    if left_ms <= 0:
        given_up = f"{reason}; given up after {LONGEST_WAITS_MS // 3_600_000} hours of waits that the agent asked for"
        return decided(dead=True, process_after=None, reason=given_up)
    due = now_ms + min(max(wait_ms, _SHORTEST_WAIT_MS), left_ms)
    return decided(dead=False, process_after=due, reason=reason)


def fail(conn: apsw.Connection, claim: Claim, failure: Failure, policy: RetryPolicy, *, now_ms: int) -> list[Message]:
    """Fail the turn. The sender of a message that is now dead gets one sentence.

    A turn over several messages that fails for good ends none of them: each then runs alone, at no attempt.

    Returns:
        The messages that are dead.

    Raises:
        ClaimLost: the claim lost its lease; the caller's transaction must roll back.
    """
    said = _said(conn, claim)
    is_alone = len(claim.asked) == 1
    verdicts = {
        message.id: judge(message, failure, policy, said, is_alone=is_alone, now_ms=now_ms) for message in claim.asked
    }
    claims.fail(conn, claim, verdicts, now_ms=now_ms)
    _pause_agent(conn, claim.agent, failure, now_ms=now_ms)
    dead = [message for message in claim.asked if verdicts[message.id].dead]
    if said.has_spoken:
        agent_messages.append(conn, _one_after_the_other(_asked(claim)))
        _tell_cut_off(conn, dead, now_ms=now_ms)
    else:
        for place, message in enumerate(dead):  # a millisecond apart, like the answers of a turn
            _apologise(conn, message, APOLOGY, now_ms=now_ms + place)
    series.advance_messages(conn, now_ms=now_ms)
    return dead


def _pause_agent(conn: apsw.Connection, agent: str, failure: Failure, *, now_ms: int) -> None:
    """Where it can't work at all. ``turn.paused_agents`` tells people, and lets it go on."""
    code = next((each for each in agent_pauses.CODES if each == failure.code), None)
    if code is None:
        return
    wait_ms = failure.wait_from(now_ms)
    until = None if wait_ms is None else now_ms + max(wait_ms, _SHORTEST_WAIT_MS)
    reason = redaction.redact(failure.reason.strip()) or NO_REASON
    if agent_pauses.pause(conn, agent, code, reason, until=until, now_ms=now_ms):
        log.warning("agent.paused", agent=agent, code=code, reason=reason, until=until)


def _said(conn: apsw.Connection, claim: Claim) -> Said:
    if not spoken.has_spoken(conn, claim.token):
        return NOTHING
    agent = agents.get(conn, claim.agent)
    return Said(True, agent is not None and agent.resume_spoken and not claim.goes_on)


def _tell_cut_off(conn: apsw.Connection, dead: Sequence[Message], *, now_ms: int) -> None:
    """One sentence to the people of a turn that had spoken; every other agent that asked gets its answer."""
    told = [each for place, each in enumerate(dead) if place == 0 or each.from_agent is not None]
    for place, message in enumerate(told):
        _apologise(conn, message, CUT_OFF, now_ms=now_ms + place)
    endings.enqueue(conn, [each for each in dead if each not in told], now_ms=now_ms + len(told))


def _apologise(conn: apsw.Connection, message: Message, text: str, *, now_ms: int) -> None:
    """Tell the sender of a dead message. Where its row does not say how, it is dead all the same."""
    try:
        with savepoint(conn):
            apology = [TurnReply(text, message)]
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
        _apologise(conn, message, APOLOGY, now_ms=now_ms)
        series.advance_messages(conn, now_ms=now_ms)


def release(conn: apsw.Connection, claim: Claim, *, why: str = STOPPED, now_ms: int) -> None:
    """The turn was interrupted: give its messages back, as if no turn had taken them. One that has spoken has failed.

    Args:
        why: what interrupted it, for the row of a turn that has spoken.

    Raises:
        ClaimLost: the turn no longer holds its messages; the caller's transaction must roll back.
    """
    if spoken.has_spoken(conn, claim.token):
        failure = Failure(f"{why}, after the turn had spoken", code="interrupted")
        fail(conn, claim, failure, _ONCE, now_ms=now_ms)
    else:
        claims.release(conn, claim, now_ms=now_ms)


def end_others(conn: apsw.Connection, claim: Claim, cancelled: int, *, reason: str, now_ms: int) -> None:
    """The turn had spoken, and one of its messages was cancelled: the others, released since, end with it."""
    agent_messages.append(conn, _one_after_the_other(_asked(claim)))
    others = [message for message in claim.asked if message.id != cancelled]
    if _said(conn, claim).may_go_on:
        return
    why = f"another message of the same turn was {reason}, after the turn had spoken"
    for message in others:
        verdict = MessageVerdict(True, message.retry_count + 1, None, why, "interrupted")
        claims.set_aside(conn, message, verdict, now_ms=now_ms)
    _tell_cut_off(conn, others, now_ms=now_ms)
    series.advance_messages(conn, now_ms=now_ms)


def rescue(
    conn: apsw.Connection,
    policy: RetryPolicy,
    *,
    now_ms: int,
    everything: bool = False,
    is_host_lost: bool = False,
    only: Collection[int] | None = None,
    limit: int | None = None,
) -> list[Claim]:
    """Fail the turns with an expired lease: their process is gone, or hangs. *everything*: all turns, of any process.

    *is_host_lost*: dispatch did not go alone, so no program is to blame. *only*: the turns of these sessions.
    *limit*: so many of them; a turn takes a dozen statements.
    """
    lost = [claim for claim, lease in claims.running(conn) if everything or lease < now_ms]
    if only is not None:
        lost = [claim for claim in lost if claim.session_id in only]
    lost = lost[:limit]
    reason = HOST_LOST if is_host_lost else PROCESS_GONE
    failure = Failure(reason, code="process_gone", is_host_lost=is_host_lost)
    for claim in lost:
        fail(conn, claim, failure, policy, now_ms=now_ms)
    return lost
