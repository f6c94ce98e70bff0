"""Claims: a turn's hold on a batch of one session's messages.

A claim is a token on the rows, with a lease. Whoever lost the lease changes nothing, because every statement names the
token. Writers are serialised (``connection.transaction``), so what a claim reads is still true when it writes.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import apsw

from shared.core.errors import ClaimLost
from shared.db.engine.connection import rows, scalar
from shared.db.queue import events, schedule_runs
from shared.db.queue.events import EventData
from shared.db.queue.message_row import COLUMNS, WIDTH, Message, message_of
from shared.db.queue.ready_sessions import FIRSTS, OPEN_AGENTS

# Those that wait for a later instant are passed over, but not those that wait for another try.
DUE = f"""
    SELECT {COLUMNS}, process_after, status
      FROM messages
     WHERE agent = :agent AND session_id = :session AND trigger = 1 AND (status = 'pending' OR status = 'processing')
       AND (process_after IS NULL OR process_after <= :now OR failure IS NOT NULL OR status = 'processing')
     ORDER BY status DESC, id
     LIMIT :limit
"""

URGENT = f"""
    SELECT {COLUMNS}, process_after
      FROM messages
     WHERE session_id = :session AND urgency = 'urgent' AND status = 'pending' AND trigger = 1
       AND (process_after IS NULL OR process_after <= :now)
     ORDER BY id
     LIMIT :limit
"""

CONTEXT = f"""
    SELECT {COLUMNS}
      FROM messages
     WHERE session_id = :session AND status = 'pending' AND trigger = 0
     ORDER BY id DESC
     LIMIT :limit
"""

OLDEST_CONTEXT = """
    SELECT id
      FROM messages
     WHERE session_id = :session AND status = 'pending' AND trigger = 0
     ORDER BY id
     LIMIT 1
"""

# Its rows were read before: to have them returned takes three times as long as the update.
_CLAIM = """
    UPDATE messages
       SET status = 'processing', claimed_by = ?2, lease = ?3, updated_at = ?4
     WHERE id IN (SELECT value FROM json_each(?1)) AND status = 'pending'
"""

# The turns that hold something: of each session, the rows that run, and its context rows that run with them.
RUNNING = f"""
    SELECT {COLUMNS}, claimed_by, lease
      FROM messages
     WHERE agent = :agent AND session_id = :session AND trigger = 1 AND status = 'processing'
     UNION ALL
    SELECT {COLUMNS}, claimed_by, lease
      FROM messages
     WHERE session_id = :session AND trigger = 0 AND status = 'processing'
     ORDER BY 1
"""

FailureCode = Literal["error", "rate_limited", "process_gone"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn's hold on a batch: its token, and the rows in the order in which they came."""

    token: str
    session_id: int
    agent: str
    batch: tuple[Message, ...]

    @property
    def ids(self) -> str:
        """The rows' ids as a JSON array, for ``json_each``."""
        return json.dumps([message.id for message in self.batch])

    @property
    def asked(self) -> tuple[Message, ...]:
        """The messages that ask for the turn; the others are context."""
        return tuple(message for message in self.batch if message.trigger)


@dataclass(frozen=True, slots=True)
class MessageVerdict:
    """What a failed attempt does to a message: a retry from *process_after* on, or the end. The caller decides.

    Attributes:
        reason: for people; no statement reads it.
    """

    dead: bool
    retry_count: int
    process_after: int | None
    reason: str
    failure: FailureCode = "error"


def _due(conn: apsw.Connection, agent: str, session_id: int, *, now_ms: int, limit: int) -> list[Message]:
    """The batch's triggers: oldest first, up to the first that can't share a turn with them.

    Urgent ones come before older ones. Nothing while a turn has the session, or a message waits for another try.
    """
    place = {"agent": agent, "session": session_id, "now": now_ms, "limit": limit}
    found = rows(conn, DUE, place)
    if not found or found[0][-1] == "processing" or (found[0][WIDTH] or 0) > now_ms:
        return []
    urgent = rows(conn, URGENT, place)
    if urgent:
        first = {row[0] for row in urgent}
        found = [*urgent, *(row for row in found if row[0] not in first)][:limit]
    return _together(found, now_ms)


def _together(found: Iterable[Sequence[Any]], now_ms: int) -> list[Message]:
    """Those, from the first on, that can share a turn. *found* has the columns of ``URGENT``."""
    batch: list[Message] = []
    for row in found:
        process_after = row[WIDTH]
        if process_after is not None and process_after > now_ms:
            break  # waits for another try: later ones wait behind it
        message = message_of(row)
        goes_alone = message.retry_count or message.content.get("own_answer")  # it failed before, or asks for that
        if batch and (goes_alone or (message.chat_id, message.thread_id) != (batch[0].chat_id, batch[0].thread_id)):
            break  # one answer can't serve both
        batch.append(message)
        if goes_alone:
            break
    return batch


def claim(
    conn: apsw.Connection, agent: str, session_id: int, *, token: str, now_ms: int, lease_ms: int, limit: int
) -> Claim | None:
    """Take the session's due messages, oldest first, then its newest context, up to *limit*; None: not its turn.

    Raises:
        ClaimLost: this is no write transaction, and somebody else took some of them meanwhile.
    """
    batch = _due(conn, agent, session_id, now_ms=now_ms, limit=limit)
    if not batch:
        return None
    first = min(batch)
    if len(batch) < limit:
        context = rows(conn, CONTEXT, {"session": session_id, "limit": limit - len(batch)})
        batch += [message_of(row) for row in context]
    claim = Claim(token, session_id, agent, tuple(sorted(batch)))
    conn.execute(_CLAIM, (claim.ids, token, now_ms + lease_ms, now_ms))
    _check(claim, conn.changes())
    for each in claim.batch:
        if each.scheduled_at is not None and each.series_id is not None:
            schedule_runs.begin(conn, each.series_id, each.message_id, due_ms=each.scheduled_at, now_ms=now_ms)
    events.append(
        conn,
        "chain_step_start",
        now_ms=now_ms,
        message_id=first.message_id,
        agent=agent,
        channel=first.channel,
        session_id=session_id,
        data={"batch": [message.message_id for message in claim.batch], "attempt": first.retry_count + 1},
    )
    return claim


def renew(conn: apsw.Connection, claim: Claim, *, lease_until: int) -> None:
    """The turn lives: hold its rows longer.

    Raises:
        ClaimLost: they were rescued meanwhile.
    """
    conn.execute(
        """
        UPDATE messages
           SET lease = :lease
         WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'processing' AND claimed_by = :token
        """,
        {"lease": lease_until, "ids": claim.ids, "token": claim.token},
    )
    _check(claim, conn.changes())


_COMPLETE = """
    UPDATE messages
       SET status = 'completed', claimed_by = NULL, lease = NULL, last_error = NULL, failure = NULL, updated_at = ?2
     WHERE id IN (SELECT value FROM json_each(?1)) AND status = 'processing' AND claimed_by = ?3
"""

# Context that was too old for the batch will never be newer than what the agent has just seen.
_LEAVE_BEHIND = """
    UPDATE messages
       SET status = 'completed', updated_at = ?2
     WHERE id IN (SELECT id
                    FROM messages
                   WHERE session_id = ?1 AND status = 'pending' AND trigger = 0 AND id < ?3
                   ORDER BY id DESC
                   LIMIT ?4)
"""

_PASSED_AT_ONCE = 500  # 40 000 would hold the write lock for most of a second


def complete(conn: apsw.Connection, claim: Claim, *, now_ms: int) -> None:
    """The turn succeeded. Older context is passed over with it; a great deal of it, by ``pass_over`` afterwards.

    Raises:
        ClaimLost: somebody else holds the rows; nothing must be kept of this turn.
    """
    conn.execute(_COMPLETE, (claim.ids, now_ms, claim.token))
    _check(claim, conn.changes())
    pass_over(conn, claim, now_ms=now_ms)


def pass_over(conn: apsw.Connection, claim: Claim, *, now_ms: int) -> None:
    """Complete some of the context that was too old for the turn's batch, newest first, for one settled turn."""
    conn.execute(_LEAVE_BEHIND, (claim.session_id, now_ms, claim.batch[-1].id, _PASSED_AT_ONCE))


def has_older_context(conn: apsw.Connection, claim: Claim) -> bool:
    """Whether context that is older than what the turn has seen still waits."""
    oldest = rows(conn, OLDEST_CONTEXT, {"session": claim.session_id})
    return bool(oldest) and oldest[0][0] < claim.batch[-1].id


_FAIL = """
    UPDATE messages
       SET status = :status, retry_count = :retry_count, process_after = :process_after, last_error = :reason,
           failure = :failure, claimed_by = NULL, lease = NULL, updated_at = :now
     WHERE id = :id AND status = 'processing' AND claimed_by = :token
"""

# The failure of an earlier attempt stays: a message that has ended processes is still a suspect.
_RELEASE = """
    UPDATE messages
       SET status = 'pending', claimed_by = NULL, lease = NULL, updated_at = :now
     WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'processing' AND claimed_by = :token
"""


def fail(conn: apsw.Connection, claim: Claim, verdicts: Mapping[int, MessageVerdict], *, now_ms: int) -> None:
    """The turn failed: each message of ``claim.asked`` by its verdict; the context waits for the next turn.

    Args:
        verdicts: by the message's row.

    Raises:
        ClaimLost: the turn no longer holds the rows.
    """
    changed = 0
    for message in claim.asked:
        verdict = verdicts[message.id]
        outcome: EventData = {
            "reason": verdict.reason,
            "retry_count": verdict.retry_count,
            "process_after": verdict.process_after,
        }
        status = "dead" if verdict.dead else "pending"
        key = {"id": message.id, "token": claim.token, "now": now_ms}
        conn.execute(_FAIL, {**outcome, **key, "status": status, "failure": verdict.failure})
        changed += conn.changes()
        _record(conn, "message_dead" if verdict.dead else "message_retry", message, outcome, now_ms=now_ms)
    if len(claim.asked) < len(claim.batch):
        context = json.dumps([message.id for message in claim.batch if not message.trigger])
        conn.execute(_RELEASE, {"ids": context, "token": claim.token, "now": now_ms})
        changed += conn.changes()
    _check(claim, changed)


def release(conn: apsw.Connection, claim: Claim, *, now_ms: int) -> None:
    """Give the messages back as the claim found them: no attempt is counted, and an earlier failure stays.

    Raises:
        ClaimLost: the turn no longer holds the rows.
    """
    conn.execute(_RELEASE, {"ids": claim.ids, "token": claim.token, "now": now_ms})
    _check(claim, conn.changes())
    for message in claim.asked:
        _record(conn, "message_released", message, now_ms=now_ms)


def _record(conn: apsw.Connection, type_: str, message: Message, data: EventData | None = None, *, now_ms: int) -> None:
    events.append(
        conn,
        type_,
        now_ms=now_ms,
        message_id=message.message_id,
        agent=message.agent,
        channel=message.channel,
        session_id=message.session_id,
        data=data,
    )


def _check(claim: Claim, changed: int) -> None:
    if changed != len(claim.batch):
        raise ClaimLost(f"turn {claim.token} holds {changed} of its {len(claim.batch)} messages: another one took them")


def is_held(conn: apsw.Connection, claim: Claim) -> bool:
    """Whether the turn still has its messages. All of a batch is taken away at once, so its first row tells."""
    return bool(
        scalar(
            conn,
            "SELECT claimed_by = :token FROM messages WHERE id = :id",
            {"token": claim.token, "id": claim.batch[0].id},
        )
    )


def is_due(conn: apsw.Connection, agent: str, session_id: int, *, now_ms: int) -> bool:
    """Whether the session could have its turn now."""
    return bool(_due(conn, agent, session_id, now_ms=now_ms, limit=1))


TAKEN = f"""
    SELECT {COLUMNS}, process_after, urgency = 'urgent'
      FROM messages
     WHERE id IN (SELECT value FROM json_each(:ids)) AND trigger = 1
     ORDER BY id
"""


def has_taken_urgent(conn: apsw.Connection, claim: Claim) -> bool:
    """Whether the turn has an urgent message."""
    return any(is_urgent for *_, is_urgent in rows(conn, TAKEN, {"ids": claim.ids}))


def would_gain(conn: apsw.Connection, claim: Claim, *, now_ms: int, limit: int) -> bool:
    """Whether the turn, given back and begun anew, would have an urgent message that it has not.

    What was urgent already goes first, oldest first, so each new beginning adds to it, until the batch is full.
    """
    waiting = rows(conn, URGENT, {"session": claim.session_id, "now": now_ms, "limit": limit})
    if not waiting:
        return False
    taken = rows(conn, TAKEN, {"ids": claim.ids})
    urgent = sorted([*waiting, *(row for row in taken if row[-1])], key=lambda row: row[0])
    others = [row for row in taken if not row[-1]]
    batch = {message.id for message in _together([*urgent, *others][:limit], now_ms)}
    return any(row[0] in batch for row in waiting)


def running(conn: apsw.Connection) -> list[tuple[Claim, int]]:
    """Every turn that holds rows, with the instant its lease runs out."""
    turns = []
    for agent, _, _ in rows(conn, OPEN_AGENTS):
        for session_id, _, is_busy, *_ in rows(conn, FIRSTS, {"agent": agent, "now": 0}):
            found = rows(conn, RUNNING, {"agent": agent, "session": session_id}) if is_busy else []
            if found:  # outside a transaction, it may have been cancelled meanwhile
                batch = tuple(message_of(row) for row in found)
                turns.append((Claim(found[0][-2], session_id, agent, batch), found[0][-1]))
    return turns
