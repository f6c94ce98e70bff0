"""Claims: a turn's hold on a batch of one session's messages.

A claim is a token on the rows, with a lease. A turn that lost its lease changes nothing, because every statement names
the token. Writers are serialised (``connection.transaction``), so what a claim reads is still true when it writes.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import apsw

from shared.core.backoff import has_slept
from shared.core.content import private_to
from shared.core.errors import ClaimLost, RowInvalid
from shared.core.failures import FailureCode
from shared.db.engine.connection import rows, scalar
from shared.db.queue import events, schedule_runs
from shared.db.queue.events import EventData
from shared.db.queue.message_row import COLUMNS, Message, message_of, readable_message_of
from shared.db.queue.ready_sessions import FIRSTS, OPEN_AGENTS

_CANDIDATE = f"id, process_after, status, urgency = 'urgent', {COLUMNS}"

# A message that is planned for later is left out; one that waits for a retry is not.
DUE = f"""
    SELECT {_CANDIDATE}
      FROM messages
     WHERE agent = :agent AND session_id = :session AND trigger = 1 AND (status = 'pending' OR status = 'processing')
       AND (process_after IS NULL OR process_after <= :now OR failure IS NOT NULL OR status = 'processing')
       AND NOT EXISTS (SELECT 1 FROM agent_pauses p WHERE p.agent = :agent AND p.state = 'paused')
     ORDER BY status DESC, id
     LIMIT :limit
"""

URGENT = f"""
    SELECT {_CANDIDATE}
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

# The rows are read before: RETURNING them takes three times as long as the update.
_CLAIM = """
    UPDATE messages
       SET status = 'processing', claimed_by = :token, lease = :lease, updated_at = :now
     WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'pending'
"""

# The batch of a session's turn: the messages that ask for it, and the context that was claimed with them.
RUNNING = f"""
    SELECT claimed_by, lease, {COLUMNS}
      FROM messages
     WHERE agent = :agent AND session_id = :session AND trigger = 1 AND status = 'processing'
     UNION ALL
    SELECT claimed_by, lease, {COLUMNS}
      FROM messages
     WHERE session_id = :session AND trigger = 0 AND status = 'processing'
     ORDER BY id
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn's hold on a batch: its token, and the messages in the order of their arrival.

    Attributes:
        told: context that joined while the turn ran, and that its agent was told. It ends as the batch does.
        untold: context that joined, and that the agent did not take. It waits for the next turn, however this one ends.
    """

    token: str
    session_id: int
    agent: str
    batch: tuple[Message, ...]
    told: tuple[Message, ...] = ()
    untold: tuple[Message, ...] = ()

    @property
    def held(self) -> tuple[Message, ...]:
        """All messages that the turn holds."""
        return (*self.batch, *self.told, *self.untold)

    @property
    def ids(self) -> str:
        """The rows' ids as a JSON array, for ``json_each``."""
        return _ids(self.held)

    @property
    def goes_on(self) -> bool:
        """Whether the turn goes on with what an earlier one said. ``_batch`` lets such messages be alone."""
        return self.asked[0].spoken not in (None, self.token)

    @property
    def asked(self) -> tuple[Message, ...]:
        """The messages that ask for the turn; the others are context."""
        return tuple(message for message in self.batch if message.trigger)


def _ids(messages: Iterable[Message]) -> str:
    return json.dumps([message.id for message in messages])


FILES = """
    SELECT message_id, files
      FROM messages
     WHERE id IN (SELECT value FROM json_each(:ids)) AND files <> '[]'
     ORDER BY id
"""


def files(conn: apsw.Connection, claim: Claim) -> list[tuple[str, str]]:
    """The messages of the batch that have attachments, and their attachments as JSON, in the order of the batch."""
    return [(message_id, found) for message_id, found in rows(conn, FILES, {"ids": claim.ids})]


@dataclass(frozen=True, slots=True)
class MessageVerdict:
    """What a failed attempt does to a message: a retry from *process_after* on, or the end. The caller decides.

    Attributes:
        reason: for people; no statement reads it.
        waits_since: when the first of its last waits began that cost no attempt, in ms; None: this is none.
    """

    dead: bool
    retry_count: int
    process_after: int | None
    reason: str
    failure: FailureCode = "error"
    waits_since: int | None = None


class _Candidate(NamedTuple):
    """A message that may join the batch: what decides that, and its row, which is parsed only if it does."""

    id: int
    process_after: int | None
    status: str
    is_urgent: bool
    row: Sequence[Any]

    def is_later(self, now_ms: int) -> bool:
        return self.process_after is not None and self.process_after > now_ms

    def message(self, now_ms: int) -> Message:
        """The message. Its waits in a row begin anew where nothing was tried for hours after the last one."""
        found = message_of(self.row)
        return found._replace(waits_since=None) if has_slept(self.process_after, now_ms=now_ms) else found


def _candidates(conn: apsw.Connection, sql: str, parameters: Mapping[str, Any]) -> list[_Candidate]:
    found = rows(conn, sql, parameters)
    return [_Candidate(row[0], row[1], row[2], bool(row[3]), row[4:]) for row in found]


def _due(conn: apsw.Connection, agent: str, session_id: int, *, now_ms: int, limit: int) -> list[Message]:
    """The batch's triggers: oldest first, up to the first one that can't share a turn with them.

    Urgent messages come before older ones. Nothing while a turn has the session or its oldest message waits for a
    retry.
    """
    key = {"agent": agent, "session": session_id, "now": now_ms, "limit": limit}
    due = _candidates(conn, DUE, key)
    if not due or due[0].status == "processing" or due[0].is_later(now_ms):
        return []
    urgent = _candidates(conn, URGENT, key)
    if urgent:
        first = {each.id for each in urgent}
        due = [*urgent, *(each for each in due if each.id not in first)][:limit]
    return _batch(due, now_ms)


def _audience(message: Message) -> tuple[int | None, str | None, str | None, str | None]:
    """Who sees the answer, and what was said before. Since migration 7 a person's private messages have a session of
    their own."""
    return message.chat_id, message.thread_id, private_to(message.content), message.spoken


def _batch(candidates: Iterable[_Candidate], now_ms: int) -> list[Message]:
    """The messages, from the first on, that can share a turn.

    Raises:
        RowInvalid: the first can't be read.
    """
    batch: list[Message] = []
    shared = None
    for each in candidates:
        if each.is_later(now_ms):
            break  # it waits for a retry, and later messages wait behind it
        try:
            message = each.message(now_ms)
        except RowInvalid:
            if batch:
                break  # those before it go first
            raise
        has_failed = message.retry_count and message.spoken is None  # what was said was about all of its batch
        goes_alone = has_failed or message.content.get("own_answer")  # or its content requires it
        audience = _audience(message)
        if batch and (goes_alone or audience != shared):
            break  # one answer can't serve both
        batch.append(message)
        shared = audience
        if goes_alone:
            break
    return batch


def claim(
    conn: apsw.Connection, agent: str, session_id: int, *, token: str, now_ms: int, lease_ms: int, limit: int
) -> Claim | None:
    """Claim the session's due messages, oldest first, then its newest context, up to *limit*; None: nothing is due.

    Raises:
        RowInvalid: one of these messages can't be read.
        ClaimLost: outside a write transaction, another process claimed some of them meanwhile.
    """
    batch = _due(conn, agent, session_id, now_ms=now_ms, limit=limit)
    if not batch:
        return None
    first = min(batch)
    if len(batch) < limit:
        context = rows(conn, CONTEXT, {"session": session_id, "limit": limit - len(batch)})
        allowed = (None, private_to(batch[0].content))
        batch += [each for each in map(message_of, context) if private_to(each.content) in allowed]
    claim = Claim(token, session_id, agent, tuple(sorted(batch)))
    conn.execute(_CLAIM, {"ids": claim.ids, "token": token, "lease": now_ms + lease_ms, "now": now_ms})
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
    """Extend the lease of a turn that still runs.

    Raises:
        ClaimLost: the turn no longer holds the rows.
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

_PASSED_AT_ONCE = 500  # rows; 40 000 would hold the write lock for most of a second


def complete(conn: apsw.Connection, claim: Claim, *, now_ms: int) -> None:
    """The turn succeeded: complete its batch, and up to 500 rows of older context; ``pass_over`` completes the rest.

    Raises:
        ClaimLost: the turn no longer holds the rows; the caller's transaction must roll back.
    """
    conn.execute(_COMPLETE, {"ids": _ids((*claim.batch, *claim.told)), "token": claim.token, "now": now_ms})
    changed = conn.changes()
    if claim.untold:
        conn.execute(_RELEASE, {"ids": _ids(claim.untold), "token": claim.token, "now": now_ms})
        changed += conn.changes()
    _check(claim, changed)
    pass_over(conn, claim, now_ms=now_ms)


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
           failure = :failure, waits_since = :waits_since, claimed_by = NULL, lease = NULL, updated_at = :now
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
        state = {"status": status, "failure": verdict.failure, "waits_since": verdict.waits_since}
        conn.execute(_FAIL, {**outcome, **key, **state})
        changed += conn.changes()
        _record(conn, "message_dead" if verdict.dead else "message_retry", message, outcome, now_ms=now_ms)
    if len(claim.asked) < len(claim.held):
        context = _ids(message for message in claim.held if not message.trigger)
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


# -- what comes in about the batch while its turn runs

ABOUT_BATCH = """
    SELECT id, files <> '[]'
      FROM messages
     WHERE session_id = :session AND status = 'pending' AND trigger = 0 AND id > :after
       AND CASE WHEN json_valid(content)
                THEN content ->> '$.about.as' IN ('edits', 'deletes')
                     AND content ->> '$.about.message_id' IN (SELECT value FROM json_each(:batch))
           END
     ORDER BY id
     LIMIT 1
"""

_JOIN = f"""
    UPDATE messages
       SET status = 'processing', claimed_by = :token, updated_at = :now,
           lease = (SELECT lease FROM messages WHERE id = :first)
     WHERE id = :id AND status = 'pending' AND trigger = 0 AND files = '[]'
       AND EXISTS (SELECT 1 FROM messages WHERE id = :first AND status = 'processing' AND claimed_by = :token)
    RETURNING {COLUMNS}
"""


def next_to_tell(conn: apsw.Connection, claim: Claim) -> int | None:
    """The row of the oldest edit or deletion of the batch's messages that came since; None: there is none.

    One with files can't be told, and later ones wait behind it, so that the agent reads them in their order.
    """
    batch = json.dumps([message.message_id for message in claim.batch])
    key = {"session": claim.session_id, "after": claim.held[-1].id, "batch": batch}
    found = rows(conn, ABOUT_BATCH, key)
    return None if not found or found[0][1] else int(found[0][0])


def join(conn: apsw.Connection, claim: Claim, row_id: int, *, now_ms: int) -> Message | None:
    """The turn holds this context too; the row as it is now. None: the row waits no more, or the turn lost its own."""
    key = {"id": row_id, "first": claim.batch[0].id, "token": claim.token, "now": now_ms}
    found = rows(conn, _JOIN, key)
    return message_of(found[0]) if found else None


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
    outcome: EventData = {
        "reason": verdict.reason,
        "retry_count": verdict.retry_count,
        "process_after": verdict.process_after,
    }
    status = "dead" if verdict.dead else "pending"
    key = {"id": message.id, "now": now_ms, "status": status, "failure": verdict.failure}
    conn.execute(_SET_ASIDE, {**outcome, **key})
    if conn.changes() != 1:
        raise ClaimLost(f"message {message.message_id} is no longer pending")
    _record(conn, "message_dead" if verdict.dead else "message_retry", message, outcome, now_ms=now_ms)


READABLE = f"""
    SELECT {COLUMNS}
      FROM messages
     WHERE id = :id
"""


def readable(conn: apsw.Connection, row_id: int) -> Message | None:
    """The message in this row, with an empty content where that can't be read; None: there is no such row."""
    found = rows(conn, READABLE, {"id": row_id})
    return readable_message_of(found[0]) if found else None


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
    size = len(claim.held)
    if changed != size:
        raise ClaimLost(
            f"turn {claim.token} has {changed} of its {size} messages; a rescue or a cancellation took them"
        )


_HOLDER = "SELECT agent, session_id FROM messages WHERE id = :id AND status = 'processing'"


def holding(conn: apsw.Connection, row_id: int) -> Claim | None:
    """The turn that holds the message in this row, or None."""
    for agent, session_id in rows(conn, _HOLDER, {"id": row_id}):
        found = rows(conn, RUNNING, {"agent": agent, "session": session_id})
        batch = tuple(readable_message_of(row) for _, _, *row in found)
        return Claim(found[0][0], session_id, agent, batch)
    return None


def is_held(conn: apsw.Connection, claim: Claim) -> bool:
    """Whether the turn still holds its messages. A batch is always taken away whole, so its first row tells."""
    return bool(
        scalar(
            conn,
            "SELECT claimed_by = :token FROM messages WHERE id = :id",
            {"token": claim.token, "id": claim.batch[0].id},
        )
    )


def is_due(conn: apsw.Connection, agent: str, session_id: int, *, now_ms: int) -> bool:
    """Whether a turn could claim something in the session now."""
    return bool(_due(conn, agent, session_id, now_ms=now_ms, limit=1))


CLAIMED = f"""
    SELECT {_CANDIDATE}
      FROM messages
     WHERE id IN (SELECT value FROM json_each(:ids)) AND trigger = 1
     ORDER BY id
"""


def has_urgent_message(conn: apsw.Connection, claim: Claim) -> bool:
    """Whether the turn has an urgent message."""
    return any(each.is_urgent for each in _candidates(conn, CLAIMED, {"ids": claim.ids}))


def would_gain(conn: apsw.Connection, claim: Claim, *, now_ms: int, limit: int) -> bool:
    """Whether the turn, released and claimed again, would have an urgent message that it does not have now.

    Urgent messages go first, oldest first, so each new claim adds to them until the batch is full.
    """
    pending = _candidates(conn, URGENT, {"session": claim.session_id, "now": now_ms, "limit": limit})
    if not pending:
        return False
    claimed = _candidates(conn, CLAIMED, {"ids": claim.ids})
    urgent = sorted([*pending, *(each for each in claimed if each.is_urgent)], key=lambda each: each.id)
    others = [each for each in claimed if not each.is_urgent]
    batch = {message.id for message in _batch([*urgent, *others][:limit], now_ms)}
    return any(each.id in batch for each in pending)


def of_turn(conn: apsw.Connection, agent: str, session_id: int, token: str) -> Claim | None:
    """The claim of the turn with this token, if it holds the session's messages."""
    found = rows(conn, RUNNING, {"agent": agent, "session": session_id})
    if not found or found[0][0] != token:
        return None
    return Claim(token, session_id, agent, tuple(readable_message_of(row) for _, _, *row in found))


def running(conn: apsw.Connection) -> list[tuple[Claim, int]]:
    """Every turn that holds messages, with the end of its lease in ms."""
    turns = []
    for agent, _, _ in rows(conn, OPEN_AGENTS):
        for session_id, _, is_busy, *_ in rows(conn, FIRSTS, {"agent": agent, "now": 0}):
            found = rows(conn, RUNNING, {"agent": agent, "session": session_id}) if is_busy else []
            if found:  # outside a transaction, a cancellation may come in between
                token, lease, *_ = found[0]
                batch = tuple(readable_message_of(row) for _, _, *row in found)
                turns.append((Claim(token, session_id, agent, batch), lease))
    return turns
