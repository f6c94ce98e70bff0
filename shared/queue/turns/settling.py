"""A turn that succeeded is settled whole."""

from collections.abc import Sequence
from dataclasses import replace

import apsw

from shared.core import hops
from shared.db.queue import agent_messages, claims, events, responses, sessions, spoken
from shared.db.queue.claims import Claim
from shared.queue import agent_notes, endings, series
from shared.queue.teamwork import chains, handoffs, mailbox
from shared.queue.teamwork.chains import MailLimits
from shared.queue.turns.turn_replies import TurnReply, answered_line, asked_lines, one_after_the_other, outward


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
    lines = [
        *asked_lines(claim, (*claim.batch, *claim.told)),
        *(answered_line(claim, each, now_ms) for each in turn_replies),
    ]
    agent_messages.append(conn, one_after_the_other(lines))
    turn_replies = [_pass_on(conn, each, limits, now_ms) if each.tags else each for each in turn_replies]
    turn_replies = [each for each in turn_replies if not (each.is_blank or _was_read(conn, claim, each))]
    news = outward(conn, claim.agent, claim.session_id, turn_replies, now_ms, limits)
    responses.enqueue_many(conn, news, now_ms=now_ms)
    for each in turn_replies:
        origin = hops.origin(each.asked.content, each.asked.message_id)
        agent_notes.leave_unsent_files(
            conn, each.problems, agent=claim.agent, session_id=claim.session_id, origin=origin, now_ms=now_ms
        )
    ended_ms = now_ms + max(0, len(turn_replies) - 1)  # not before the last response
    answered_ids = {each.asked.id for each in turn_replies} or spoken.answered(conn, claim.token)
    endings.enqueue(conn, [each for each in claim.answered if each.id not in answered_ids], now_ms=ended_ms + 1)
    sessions.touch(conn, claim.session_id, continuation=continuation, provider=provider, now_ms=now_ms)
    if provider_before is not None:
        data: events.EventData = {"provider_before": provider_before, "provider": provider or ""}
        events.append_about(conn, "session_changed_provider", claim.asked[0], data, now_ms=now_ms)
    if begun_anew:
        events.append_about(conn, "session_begun_anew", claim.asked[0], now_ms=now_ms)
    _note_done(conn, claim, answers=len(turn_replies), now_ms=ended_ms)
    series.advance_messages(conn, now_ms=now_ms)


def leave_out(conn: apsw.Connection, claim: Claim, reason: str, *, now_ms: int) -> None:
    """The agent was not asked, for this reason: nothing is said, and the story and the history of a schedule say why.

    Raises:
        ClaimLost: the claim lost its lease; the caller's transaction must roll back.
    """
    claims.leave_out(conn, claim, now_ms=now_ms)
    endings.enqueue(conn, claim.asked, now_ms=now_ms)
    for each in claim.asked:
        events.append_about(conn, "turn_not_run", each, {"reason": reason}, now_ms=now_ms)
    _note_done(conn, claim, answers=0, now_ms=now_ms)
    series.advance_messages(conn, now_ms=now_ms)


def _note_done(conn: apsw.Connection, claim: Claim, *, answers: int, now_ms: int) -> None:
    batch = [each.message_id for each in (*claim.batch, *claim.told)]
    data: events.EventData = {"batch": batch, "answers": answers}
    events.append_about(conn, "chain_step_done", claim.asked[0], data, now_ms=now_ms)


def _was_read(conn: apsw.Connection, claim: Claim, reply: TurnReply) -> bool:
    """Whether its person was sent the same words before: by a tool of this turn, or in another turn of its chain."""
    person = None if reply.files else mailbox.person_of(reply.asked)
    if person is None:
        return False
    may_repeat = reply.asked.content.get("is_answer") or claim.goes_on or spoken.has_spoken(conn, claim.token)
    return bool(may_repeat) and responses.was_said(conn, person.id, reply.text)


def _pass_on(conn: apsw.Connection, reply: TurnReply, limits: MailLimits, now_ms: int) -> TurnReply:
    """Send what the reply's tags say; the reply as it then stands for the place that the message came from."""
    done = handoffs.pass_on(
        conn, reply.asked, reply.text, reply.tags, handed=reply.handed, limits=limits, now_ms=now_ms
    )
    texts = [reply.text, *done.here, *done.problems]
    is_of_person = reply.asked.kind == "chat" and reply.asked.from_agent is None
    if done.sent_to and is_of_person and not any(map(str.strip, texts)):
        texts.append(f"(Passed on to {', '.join(done.sent_to)}.)")
    return replace(reply, text="\n\n".join(filter(str.strip, texts)), files=(*reply.files, *done.files_here))
