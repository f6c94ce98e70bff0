"""A turn that failed, was interrupted or was lost: a verdict on each message, and words for senders of dead ones."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import apsw

from shared.core import logs
from shared.core.errors import OF_ONE_ROW, describe, unexpected
from shared.db.engine.connection import savepoint
from shared.db.queue import agent_messages, claims, responses, spoken
from shared.db.queue.claims import Claim, MessageVerdict
from shared.db.queue.message_row import Message
from shared.db.roster import agent_pauses, agents
from shared.queue import endings, series
from shared.queue.teamwork import chain_ends
from shared.queue.turns.turn_replies import TurnReply, asked_lines, one_after_the_other, outward
from shared.queue.turns.verdicts import (
    LOST_DISPATCH,
    LOST_HOST,
    NOTHING,
    SHORTEST_WAIT_MS,
    Failure,
    RetryPolicy,
    Said,
    judge,
)

log = logs.get()

APOLOGY = "Sorry, I could not answer this. It has been noted for the operator; you may try again later."
CUT_OFF = "Sorry, I was cut off before I could finish this. It has been noted for the operator."
STOPPED = "dispatch stopped"
ANOTHER_CAME = "interrupted (another message came)"
PROCESS_GONE = "the process that ran the turn ended"
HOST_LOST = "the host that ran the turn was lost, or all of Postroom there was stopped"

_MOST_JOIN = 1000  # of a turn that was interrupted; the next batch takes as many as it may
_ONCE = RetryPolicy(max_attempts=1, base_ms=0, cap_ms=0, jitter=0.0)


def fail(conn: apsw.Connection, claim: Claim, failure: Failure, policy: RetryPolicy, *, now_ms: int) -> list[Message]:
    """Fail the turn. The sender of a message that is now dead gets one sentence.

    If a turn over several messages fails for good, none of them is dead: each then runs alone, without counting an
    attempt.

    Returns:
        The messages that are dead.

    Raises:
        ClaimLost: the claim lost its lease; the caller's transaction must roll back.
    """
    said = _said(conn, claim)
    if said.has_spoken:
        claim = spoken.as_spoken(conn, claim)
    is_alone = len(claim.asked) == 1
    verdicts = {
        message.id: judge(message, failure, policy, said, is_alone=is_alone, now_ms=now_ms) for message in claim.asked
    }
    claims.fail(conn, claim, verdicts, now_ms=now_ms)
    _pause_agent(conn, claim.agent, failure, now_ms=now_ms)
    dead = [message for message in claim.asked if verdicts[message.id].dead]
    if said.has_spoken:
        agent_messages.append(conn, one_after_the_other(asked_lines(claim, claim.batch)))
        _tell_cut_off(conn, dead, now_ms=now_ms)
    elif failure.code == "chain_cost":
        for message in dead:
            chain_ends.stop(conn, message, failure.shown_reason, now_ms=now_ms)
    else:
        for place, message in enumerate(dead):  # a millisecond apart, like the answers of a turn
            _apologise(conn, message, APOLOGY, now_ms=now_ms + place)
    series.advance_messages(conn, now_ms=now_ms)
    return dead


def _pause_agent(conn: apsw.Connection, agent: str, failure: Failure, *, now_ms: int) -> None:
    """Pause an agent that can't work at all. ``turns.run.paused_agents`` tells people, and resumes it."""
    code = next((each for each in agent_pauses.CODES if each == failure.code), None)
    if code is None:
        return
    wait_ms = failure.wait_from(now_ms)
    until = None if wait_ms is None else now_ms + max(wait_ms, SHORTEST_WAIT_MS)
    reason = failure.shown_reason
    if agent_pauses.pause(conn, agent, code, reason, until=until, now_ms=now_ms):
        log.warning("agent.paused", agent=agent, code=code, reason=reason, until=until)


def _said(conn: apsw.Connection, claim: Claim) -> Said:
    if not spoken.has_spoken(conn, claim.token):
        return NOTHING
    agent = agents.get(conn, claim.agent)
    return Said(True, agent is not None and agent.resume_spoken and not claim.goes_on)


def _tell_cut_off(conn: apsw.Connection, dead: Sequence[Message], *, now_ms: int) -> None:
    """Send one sentence to the people of a turn that had spoken; other agents that asked get an answer."""
    told = [each for place, each in enumerate(dead) if place == 0 or each.from_agent is not None]
    for place, message in enumerate(told):
        _apologise(conn, message, CUT_OFF, now_ms=now_ms + place)
    endings.enqueue(conn, [each for each in dead if each not in told], now_ms=now_ms + len(told))


def _apologise(conn: apsw.Connection, message: Message, text: str, *, now_ms: int) -> None:
    """Tell the sender of a dead message. If its row has no place to tell, the message is dead anyway."""
    try:
        with savepoint(conn):
            apology = [TurnReply(text, message)]
            news = outward(conn, message.agent, message.session_id, apology, now_ms)
            responses.enqueue_many(conn, news, now_ms=now_ms)
    except OF_ONE_ROW:
        log.exception("turn.sender_not_told", message_id=message.message_id, agent=message.agent)


def set_aside(conn: apsw.Connection, row_id: int, error: Exception, policy: RetryPolicy, *, now_ms: int) -> None:
    """A pending message whose row can't be used has failed an attempt; its session waits for the next one as usual.

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
    """The turn was interrupted: give its messages back, as if no turn had taken them.

    A turn that has spoken has failed. But if its wiring allows the interruption by a message, it continues.

    Args:
        why: what interrupted it, for the row of a turn that has spoken. ``ANOTHER_CAME``: it goes on also where that
            message has been deleted meanwhile.

    Raises:
        ClaimLost: the turn no longer holds its messages; the caller's transaction must roll back.
    """
    if not spoken.has_spoken(conn, claim.token):
        joining = claims.may_join(conn, claim, "interrupt", now_ms=now_ms, limit=_MOST_JOIN) if claim.goes_on else []
        claims.release(conn, claim, now_ms=now_ms)
        _go_on_with(conn, claim, joining)
    elif (joining := claims.may_join(conn, claim, "interrupt", now_ms=now_ms, limit=_MOST_JOIN)) or why == ANOTHER_CAME:
        claim = spoken.as_spoken(conn, claim)
        verdicts = {each.id: MessageVerdict(False, each.retry_count, None, why, "interrupted") for each in claim.asked}
        claims.fail(conn, claim, verdicts, now_ms=now_ms)
        agent_messages.append(conn, one_after_the_other(asked_lines(claim, claim.batch)))
        _go_on_with(conn, claim, joining)
    else:
        failure = Failure(f"{why}, after the turn had spoken", code="interrupted")
        fail(conn, claim, failure, _ONCE, now_ms=now_ms)


def _go_on_with(conn: apsw.Connection, claim: Claim, joining: Sequence[Message]) -> None:
    """These messages interrupted a turn that had spoken; the turn that continues it takes them too."""
    if not joining:
        return
    spoken.goes_on_with(conn, joining, claim.asked[0].spoken or claim.token)
    agent_messages.append(conn, one_after_the_other(asked_lines(claim, joining)))


def end_others(conn: apsw.Connection, claim: Claim, cancelled: int, *, reason: str, now_ms: int) -> None:
    """The turn had spoken, and one of its messages was cancelled: the others, which were released, end with it."""
    agent_messages.append(conn, one_after_the_other(asked_lines(claim, claim.batch)))
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
    since_ms: int | None = None,
    only: Collection[int] | None = None,
    limit: int | None = None,
) -> list[Claim]:
    """Fail the turns with an expired lease: their process is gone, or hangs. *everything*: all turns, of any process.

    *is_host_lost*: dispatch did not go alone, so no program is to blame. *only*: the turns of these sessions.
    *limit*: so many of them; a turn takes a dozen statements.

    If one of the turns had a suspect message, only that message becomes more suspect. If no running message was there
    at an earlier loss, dispatch was lost without the waiting suspects. That acquits those that have waited since
    *since_ms*, when that dispatch began; a later wait may be because of this very loss, which a sweep saw first.
    """
    lost = [claim for claim, lease in claims.running(conn) if everything or lease < now_ms]
    if only is not None:
        lost = [claim for claim in lost if claim.session_id in only]
    lost = lost[:limit]
    has_suspect = any(map(_is_suspect, lost))
    if since_ms is not None and not (is_host_lost or any(map(_was_there_before, lost))):
        claims.acquit(conn, since_ms=since_ms, now_ms=now_ms)
    failure = Failure(HOST_LOST if is_host_lost else PROCESS_GONE, code="process_gone")
    for claim in lost:
        fail(conn, claim, replace(failure, suspicion=_weight(claim, is_host_lost, has_suspect)), policy, now_ms=now_ms)
    return lost


def _weight(claim: Claim, is_host_lost: bool, has_suspect: bool) -> int:
    """The suspicion from this loss against the messages of the turn. A suspect may take its host down too."""
    if _is_suspect(claim):
        return LOST_DISPATCH
    return LOST_HOST if is_host_lost else 0 if has_suspect else LOST_DISPATCH


def _was_there_before(claim: Claim) -> bool:
    """Whether it may be what takes dispatch down. Otherwise two such messages would acquit each other for ever."""
    return any((message.suspicion or 0) >= LOST_DISPATCH for message in claim.asked)


def _is_suspect(claim: Claim) -> bool:
    return any(message.is_suspect for message in claim.asked)
