"""How a claim ends: its messages are completed, retried, dead, or given back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import apsw

from shared.core.errors import ClaimLost
from shared.db.engine.connection import scalar
from shared.db.queue import events
from shared.db.queue.claims.rows import Claim, MessageVerdict, check_all, json_ids
from shared.db.queue.message_row import Message

_COMPLETE = """
    UPDATE messages
       SET status = 'completed', claimed_by = NULL, lease = NULL, last_error = NULL, failure = NULL, updated_at = :now
     WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'processing' AND claimed_by = :token
"""

# Context too old for this batch is older than everything that the agent has seen by now: no later turn needs it.
_LEAVE_BEHIND = """
    UPDATE messages
       SET status = 'completed', updated_at = :now
     WHERE id IN (SELECT id
                    FROM messages
                   WHERE session_id = :session AND status = 'pending' AND trigger = 0 AND id < :before
                   ORDER BY id DESC
                   LIMIT :limit)
"""

OLDEST_CONTEXT = """
    SELECT id
      FROM messages
     WHERE session_id = :session AND status = 'pending' AND trigger = 0
     ORDER BY id
     LIMIT 1
"""

_PASSED_AT_ONCE = 500  # rows; 40 000 would hold the write lock for most of a second


def leave_out(conn: apsw.Connection, claim: Claim, *, now_ms: int) -> None:
    """The agent was not asked: complete what asked; the context waits for a turn that reads it.

    Raises:
        ClaimLost: the turn no longer holds the rows; the caller's transaction must roll back.
    """
    asked = {message.id for message in claim.asked}
    unread = tuple(message for message in claim.held if message.id not in asked)
    _complete(conn, replace(claim, batch=claim.asked, told=(), untold=unread), now_ms=now_ms)


def complete(conn: apsw.Connection, claim: Claim, *, now_ms: int) -> None:
    """The turn succeeded: complete its batch, and up to 500 rows of older context; ``pass_over`` completes the rest.

    Raises:
        ClaimLost: the turn no longer holds the rows; the caller's transaction must roll back.
    """
    _complete(conn, claim, now_ms=now_ms)
    pass_over(conn, claim, now_ms=now_ms)


def _complete(conn: apsw.Connection, claim: Claim, *, now_ms: int) -> None:
    conn.execute(_COMPLETE, {"ids": json_ids((*claim.batch, *claim.told)), "token": claim.token, "now": now_ms})
    changed = conn.changes()
    changed += _give_back(conn, claim, claim.untold, now_ms=now_ms)
    check_all(claim, changed)


def pass_over(conn: apsw.Connection, claim: Claim, *, now_ms: int) -> None:
    """Complete up to 500 rows of context that were too old for the turn's batch, newest first."""
    values = {"session": claim.session_id, "before": claim.batch[-1].id, "now": now_ms, "limit": _PASSED_AT_ONCE}
    conn.execute(_LEAVE_BEHIND, values)


def has_older_context(conn: apsw.Connection, claim: Claim) -> bool:
    """Whether context older than the turn's batch is still pending."""
    oldest = scalar(conn, OLDEST_CONTEXT, {"session": claim.session_id})
    return oldest is not None and oldest < claim.batch[-1].id


_FAIL = """
    UPDATE messages
       SET status = :status, retry_count = :retry_count, process_after = :process_after, last_error = :reason,
           failure = :failure, waits_since = :waits_since, runs_alone = iif(:runs_alone, 1, runs_alone),
           suspicion = nullif(:suspicion, 0), claimed_by = NULL, lease = NULL, updated_at = :now
     WHERE id = :id AND status = 'processing' AND claimed_by = :token
"""

# The failure of an earlier attempt stays: a message that has ended processes is still a suspect.
_RELEASE = """
    UPDATE messages
       SET status = 'pending', claimed_by = NULL, lease = NULL, updated_at = :now
     WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'processing' AND claimed_by = :token
"""


def fail(conn: apsw.Connection, claim: Claim, verdicts: Mapping[int, MessageVerdict], *, now_ms: int) -> None:
    """The turn failed: each message of ``claim.asked`` by its verdict; the rest waits for the next turn.

    Args:
        verdicts: by the message's row.

    Raises:
        ClaimLost: the turn no longer holds the rows.
    """
    changed = 0
    for message in claim.asked:
        verdict = verdicts[message.id]
        key = {"id": message.id, "token": claim.token, "now": now_ms}
        marks = {"runs_alone": verdict.runs_alone, "suspicion": verdict.suspicion}
        state = {"status": verdict.status, "waits_since": verdict.waits_since, **marks}
        conn.execute(_FAIL, {**verdict.outcome, **key, **state})
        changed += conn.changes()
        events.append_about(
            conn, "message_dead" if verdict.dead else "message_retry", message, verdict.outcome, now_ms=now_ms
        )
    changed += _give_back(conn, claim, [each for each in claim.held if each not in claim.asked], now_ms=now_ms)
    check_all(claim, changed)


# What a turn said before or after it held such a message is not about it.
_GIVE_BACK = """
    UPDATE messages
       SET status = 'pending', claimed_by = NULL, lease = NULL, spoken = NULL, updated_at = :now
     WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'processing' AND claimed_by = :token
"""


def _give_back(conn: apsw.Connection, claim: Claim, given: Sequence[Message], *, now_ms: int) -> int:
    """These wait for the next turn, while the others of the claim end; how many rows changed."""
    if not given:
        return 0
    conn.execute(_GIVE_BACK, {"ids": json_ids(given), "token": claim.token, "now": now_ms})
    changed = conn.changes()
    for message in given:
        if message.trigger:
            events.append_about(conn, "message_released", message, now_ms=now_ms)
    return changed


def release(conn: apsw.Connection, claim: Claim, *, now_ms: int) -> None:
    """Give the messages back as the claim found them: no attempt is counted, and an earlier failure stays.

    Raises:
        ClaimLost: the turn no longer holds the rows.
    """
    conn.execute(_RELEASE, {"ids": claim.ids, "token": claim.token, "now": now_ms})
    check_all(claim, conn.changes())
    for message in claim.held:
        if message.trigger:
            events.append_about(conn, "message_released", message, now_ms=now_ms)


ACQUIT = """
    UPDATE messages
       SET suspicion = NULL, process_after = NULL, updated_at = :now
     WHERE trigger = 1 AND status = 'pending' AND failure = 'process_gone' AND suspicion IS NOT NULL
       AND updated_at <= :since
"""


def acquit(conn: apsw.Connection, *, since_ms: int, now_ms: int) -> None:
    """Dispatch began at *since_ms* and went away, and these messages waited all that time. They wait no longer."""
    conn.execute(ACQUIT, {"since": since_ms, "now": now_ms})


_SET_ASIDE = """
    UPDATE messages
       SET status = :status, retry_count = :retry_count, process_after = :process_after, last_error = :reason,
           failure = :failure, updated_at = :now
     WHERE id = :id AND status = 'pending'
"""


def set_aside(conn: apsw.Connection, message: Message, verdict: MessageVerdict, *, now_ms: int) -> None:
    """As ``fail``, for a message that no turn can take.

    Raises:
        ClaimLost: it is no longer pending.
    """
    conn.execute(_SET_ASIDE, {**verdict.outcome, "id": message.id, "status": verdict.status, "now": now_ms})
    if conn.changes() != 1:
        raise ClaimLost(f"message {message.message_id} is no longer pending")
    events.append_about(
        conn, "message_dead" if verdict.dead else "message_retry", message, verdict.outcome, now_ms=now_ms
    )
