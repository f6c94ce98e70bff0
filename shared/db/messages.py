"""Messages: what came in, and what becomes of it.

::

    pending ──claim──> processing ──settle──> completed
       ^                  │  │
       └──retry, rescue───┘  └──fail──> dead          (paused, cancelled: by hand)

A *turn* is one claim: a token on the rows of one session, with a lease. Whoever lost the lease changes nothing, because
every statement names the token. Writers are serialised (``connection.transaction``), so what a claim reads is still
true when it writes.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from shared import ids
from shared.db import events
from shared.db.connection import rows, scalar
from shared.db.occurrence import Finished
from shared.errors import ClaimLost

_INSERT = """
    INSERT INTO messages (message_id, kind, channel, chat_id, platform_id, thread_id, platform_message_id, event_key,
                          sender, sender_id, message, content, files, agent, from_agent, session_id, conversation_id,
                          msg_type, urgency, trigger, process_after, recurrence, timezone, misfire, scheduled_at,
                          series_id, status, created_at, updated_at)
    VALUES (:message_id, :kind, :channel, :chat_id, :platform_id, :thread_id, :platform_message_id, :event_key,
            :sender, :sender_id, :message, :content, :files, :agent, :from_agent, :session_id, :conversation_id,
            :msg_type, :urgency, :trigger, :process_after, :recurrence, :timezone, :misfire, :scheduled_at,
            :series_id, 'pending', :now, :now)
    ON CONFLICT (channel, event_key, agent) WHERE event_key IS NOT NULL DO NOTHING
"""

# A loose scan: one step of the index for each session with open work, however long its backlog.
_OPEN = """
    WITH RECURSIVE open (session_id) AS (
        SELECT min(session_id)
          FROM messages
         WHERE (status = 'pending' OR status = 'processing') AND trigger = 1
         UNION ALL
        SELECT (SELECT min(m.session_id)
                  FROM messages m
                 WHERE (m.status = 'pending' OR m.status = 'processing') AND m.trigger = 1
                   AND m.session_id > open.session_id)
          FROM open
         WHERE open.session_id IS NOT NULL
    )
"""

READY = (
    _OPEN
    + """
    SELECT s.id,
           s.agent,
           a.concurrency,
           EXISTS (SELECT 1
                     FROM messages m
                    WHERE m.session_id = s.id AND m.status = 'processing' AND m.trigger = 1) AS is_busy,
           (SELECT m.id
              FROM messages m
             WHERE m.session_id = s.id AND m.status = 'pending' AND m.trigger = 1
               AND (m.process_after IS NULL OR m.process_after <= :now OR m.last_error IS NOT NULL)
             ORDER BY m.id
             LIMIT 1) AS head
      FROM open
      JOIN sessions s ON s.id = open.session_id
      JOIN agents a ON a.id = s.agent
"""
)

RUNNING = (
    _OPEN
    + """
    SELECT m.id, message_id, kind, channel, chat_id, platform_id, thread_id, platform_message_id, sender, sender_id,
           message, content, agent, m.session_id, trigger, retry_count, created_at, claimed_by, lease
      FROM open
     CROSS JOIN messages m
     WHERE m.trigger IN (0, 1) AND m.session_id = open.session_id AND m.status = 'processing'
     ORDER BY m.id
"""
)

DUE = """
    SELECT id, process_after, retry_count, chat_id, thread_id, content ->> '$.own_answer'
      FROM messages
     WHERE session_id = :session AND status = 'pending' AND trigger = 1
       AND (process_after IS NULL OR process_after <= :now OR last_error IS NOT NULL)
     ORDER BY id
     LIMIT :limit
"""

CONTEXT = """
    SELECT id
      FROM messages
     WHERE session_id = :session AND status = 'pending' AND trigger = 0
     ORDER BY id DESC
     LIMIT :limit
"""

NEXT_DUE = """
    SELECT min(process_after)
      FROM messages
     WHERE status = 'pending' AND process_after IS NOT NULL AND process_after > :now
"""


_FAILED = {
    (True, True): "message_dead",
    (True, False): "message_dead",
    (False, True): "message_retry",
    (False, False): "message_released",
}  # by (dead, has a reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """What a way in hands over; the session is already resolved."""

    message_id: str
    channel: str
    sender: str
    message: str
    agent: str
    session_id: int
    kind: str = "chat"
    chat_id: int | None = None
    platform_id: str | None = None
    thread_id: str | None = None
    platform_message_id: str | None = None
    event_key: str | None = None
    sender_id: str | None = None
    content: dict[str, Any] = field(default_factory=dict)
    files: Sequence[Any] = ()
    from_agent: str | None = None
    conversation_id: str | None = None
    msg_type: str = "message"
    urgency: str = "normal"
    trigger: bool = True
    process_after: int | None = None
    recurrence: str | None = None
    timezone: str | None = None
    misfire: str = "coalesce"
    scheduled_at: int | None = None
    series_id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A claimed row, as a turn needs it."""

    id: int
    message_id: str
    kind: str
    channel: str
    chat_id: int | None
    platform_id: str | None
    thread_id: str | None
    platform_message_id: str | None
    sender: str
    sender_id: str | None
    message: str
    content: dict[str, Any]
    agent: str
    session_id: int
    trigger: bool
    retry_count: int
    created_at: int


def _message(row: Sequence[Any]) -> Message:
    """From the columns of ``claim`` and ``RUNNING``, in the order of the fields."""
    values = list(row)
    values[11] = json.loads(values[11])
    values[14] = bool(values[14])
    return Message(*values)


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
class Verdict:
    """What a failure does to a message: tried again from *process_after*, or dead. Decided by the caller."""

    dead: bool
    retry_count: int
    process_after: int | None
    reason: str


def enqueue(conn: apsw.Connection, new: NewMessage, *, now_ms: int) -> int | None:
    """Store the message.

    Returns:
        The row's id, or None if this agent already has this platform event.

    Raises:
        apsw.ConstraintError: another message has this ``message_id``.
    """
    conn.execute(
        _INSERT,
        {
            "message_id": new.message_id,
            "kind": new.kind,
            "channel": new.channel,
            "chat_id": new.chat_id,
            "platform_id": new.platform_id,
            "thread_id": new.thread_id,
            "platform_message_id": new.platform_message_id,
            "event_key": new.event_key,
            "sender": new.sender,
            "sender_id": new.sender_id,
            "message": new.message,
            "content": json.dumps(new.content) if new.content else "{}",
            "files": json.dumps(list(new.files)) if new.files else "[]",
            "agent": new.agent,
            "from_agent": new.from_agent,
            "session_id": new.session_id,
            "conversation_id": new.conversation_id,
            "msg_type": new.msg_type,
            "urgency": new.urgency,
            "trigger": int(new.trigger),
            "process_after": new.process_after,
            "recurrence": new.recurrence,
            "timezone": new.timezone,
            "misfire": new.misfire,
            "scheduled_at": new.scheduled_at,
            "series_id": new.series_id,
            "now": now_ms,
        },
    )
    if conn.changes() == 0:
        return None
    row_id = conn.last_insert_rowid()
    events.append(
        conn,
        "message_received",
        now_ms=now_ms,
        message_id=new.message_id,
        agent=new.agent,
        channel=new.channel,
        session_id=new.session_id,
    )
    return row_id


@dataclass(frozen=True, slots=True)
class Ready:
    """A session with a due message and no turn."""

    session_id: int
    agent: str
    head: int


def ready(conn: apsw.Connection, *, now_ms: int, held: Mapping[int, str] | None = None) -> list[Ready]:
    """The sessions whose turn it is, oldest message first; no more of an agent than its free concurrency.

    Args:
        held: session to agent of the turns that still run in this process, whatever has become of their leases.
    """
    held = held or {}
    found = rows(conn, READY, {"now": now_ms})
    running = Counter(held.values())
    for session_id, agent, _, is_busy, _ in found:
        running[agent] += is_busy and session_id not in held
    chosen = []
    for session_id, agent, concurrency, is_busy, head in sorted(found, key=lambda row: row[4] or 0):
        if is_busy or session_id in held or head is None or running[agent] >= concurrency:
            continue
        if not _due(conn, session_id, now_ms=now_ms, limit=1):
            continue  # its oldest message waits for another try, and holds the session
        running[agent] += 1
        chosen.append(Ready(session_id, agent, head))
    return chosen


def _due(conn: apsw.Connection, session_id: int, *, now_ms: int, limit: int) -> list[int]:
    """The ids of the batch's triggers: oldest first, up to the first that can't share a turn with them."""
    batch: list[int] = []
    place: tuple[Any, Any] | None = None
    found = rows(conn, DUE, {"session": session_id, "now": now_ms, "limit": limit})
    for id_, process_after, retry_count, chat_id, thread_id, own_answer in found:
        if process_after is not None and process_after > now_ms:
            break  # waits for another try: later ones wait behind it
        if batch and (own_answer or retry_count or place != (chat_id, thread_id)):
            break  # one answer can't serve both, or it failed before and goes alone
        batch.append(id_)
        place = (chat_id, thread_id)
        if own_answer or retry_count:
            break
    return batch


def claim(
    conn: apsw.Connection, session_id: int, *, token: str, now_ms: int, lease_ms: int, limit: int
) -> Claim | None:
    """Take the session's due messages, oldest first, then its newest context, up to *limit*; None: not its turn."""
    busy = scalar(
        conn,
        "SELECT 1 FROM messages WHERE session_id = :session AND status = 'processing' AND trigger = 1 LIMIT 1",
        {"session": session_id},
    )
    if busy:
        return None
    batch = _due(conn, session_id, now_ms=now_ms, limit=limit)
    if not batch:
        return None
    context = rows(conn, CONTEXT, {"session": session_id, "limit": limit - len(batch)})
    batch += [row[0] for row in context]
    found = rows(
        conn,
        """
        UPDATE messages
           SET status = 'processing', claimed_by = :token, lease = :lease, updated_at = :now
         WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'pending'
        RETURNING id, message_id, kind, channel, chat_id, platform_id, thread_id, platform_message_id, sender,
                  sender_id, message, content, agent, session_id, trigger, retry_count, created_at
        """,
        {"token": token, "lease": now_ms + lease_ms, "now": now_ms, "ids": json.dumps(batch)},
    )
    messages = tuple(_message(row) for row in sorted(found))
    first = next(message for message in messages if message.trigger)
    events.append(
        conn,
        "chain_step_start",
        now_ms=now_ms,
        message_id=first.message_id,
        agent=first.agent,
        channel=first.channel,
        session_id=session_id,
        data={"batch": [message.message_id for message in messages], "attempt": first.retry_count + 1},
    )
    return Claim(token, session_id, first.agent, messages)


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
    _check(conn, claim)


def complete(conn: apsw.Connection, claim: Claim, *, now_ms: int) -> None:
    """The turn succeeded.

    Raises:
        ClaimLost: somebody else holds the rows; nothing must be kept of this turn.
    """
    conn.execute(
        """
        UPDATE messages
           SET status = 'completed', claimed_by = NULL, lease = NULL, last_error = NULL, updated_at = :now
         WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'processing' AND claimed_by = :token
        """,
        {"now": now_ms, "ids": claim.ids, "token": claim.token},
    )
    _check(conn, claim)
    # Context that was too old for the batch will never be newer than what the agent has just seen.
    conn.execute(
        """
        UPDATE messages
           SET status = 'completed', updated_at = :now
         WHERE session_id = :session AND status = 'pending' AND trigger = 0 AND id < :newest
        """,
        {"now": now_ms, "session": claim.session_id, "newest": claim.batch[-1].id},
    )


def fail(conn: apsw.Connection, claim: Claim, verdicts: dict[int, Verdict], *, now_ms: int) -> None:
    """The turn failed: each message by its verdict; context goes back to wait for the next turn.

    Raises:
        ClaimLost: somebody else holds the rows.
    """
    changed = 0
    for message in claim.batch:
        verdict = verdicts.get(message.id) or Verdict(False, message.retry_count, None, "")
        conn.execute(
            """
            UPDATE messages
               SET status = :status, retry_count = :retry_count, process_after = :process_after,
                   last_error = nullif(:reason, ''), claimed_by = NULL, lease = NULL, updated_at = :now
             WHERE id = :id AND status = 'processing' AND claimed_by = :token
            """,
            {
                "status": "dead" if verdict.dead else "pending",
                "retry_count": verdict.retry_count,
                "process_after": verdict.process_after,
                "reason": verdict.reason,
                "now": now_ms,
                "id": message.id,
                "token": claim.token,
            },
        )
        changed += conn.changes()
        if message.trigger:
            events.append(
                conn,
                _FAILED[verdict.dead, bool(verdict.reason)],
                now_ms=now_ms,
                message_id=message.message_id,
                agent=message.agent,
                channel=message.channel,
                session_id=message.session_id,
                data={
                    "reason": verdict.reason,
                    "retry_count": verdict.retry_count,
                    "process_after": verdict.process_after,
                },
            )
    if changed != len(claim.batch):
        raise ClaimLost(f"turn {claim.token} holds {changed} of {len(claim.batch)} messages")


def _check(conn: apsw.Connection, claim: Claim) -> None:
    if conn.changes() != len(claim.batch):
        raise ClaimLost(f"turn {claim.token} holds {conn.changes()} of {len(claim.batch)} messages")


def running(conn: apsw.Connection) -> list[tuple[Claim, int]]:
    """Every turn that holds rows, with the instant its lease runs out."""
    found = rows(conn, RUNNING)
    turns: dict[str, list[Message]] = {}
    leases: dict[str, int] = {}
    for *row, token, lease in found:
        message = _message(row)
        turns.setdefault(token, []).append(message)
        leases[token] = lease
    return [
        (Claim(token, batch[0].session_id, batch[0].agent, tuple(batch)), leases[token])
        for token, batch in turns.items()
    ]


def next_due(conn: apsw.Connection, *, now_ms: int) -> int | None:
    """When the earliest message that now waits becomes due, or None."""
    due: int | None = scalar(conn, NEXT_DUE, {"now": now_ms})
    return due


def finished_occurrences(conn: apsw.Connection, *, limit: int) -> list[Finished]:
    """Occurrences that ended, in whatever way, and have not yet handed their series on."""
    found = rows(
        conn,
        """
        SELECT id, recurrence, timezone, misfire, scheduled_at
          FROM messages
         WHERE recurrence IS NOT NULL AND status IN ('completed', 'dead')
         ORDER BY id
         LIMIT :limit
        """,
        {"limit": limit},
    )
    return [Finished(*row) for row in found]


def hand_on(conn: apsw.Connection, finished: Finished, *, due_ms: int, now_ms: int) -> str:
    """Insert the series' next occurrence; the finished one gives up the recurrence. The new message's id.

    One statement can't do both, but one transaction does: the caller's.
    """
    message_id = ids.new("task")
    conn.execute("UPDATE messages SET recurrence = NULL WHERE id = :id AND recurrence IS NOT NULL", {"id": finished.id})
    if conn.changes() != 1:
        raise ClaimLost(f"message {finished.id} has already handed its series on")
    ((agent, channel, session_id),) = rows(
        conn,
        """
        INSERT INTO messages (message_id, kind, channel, chat_id, platform_id, thread_id, sender, sender_id, message,
                              content, files, agent, from_agent, session_id, conversation_id, msg_type, urgency,
                              trigger, process_after, recurrence, timezone, misfire, scheduled_at, series_id,
                              created_at, updated_at)
        SELECT :message_id, kind, channel, chat_id, platform_id, thread_id, sender, sender_id, message,
               content, files, agent, from_agent, session_id, conversation_id, msg_type, urgency,
               trigger, :due, :recurrence, timezone, misfire, :due, series_id,
               :now, :now
          FROM messages
         WHERE id = :id
        RETURNING agent, channel, session_id
        """,
        {"message_id": message_id, "due": due_ms, "recurrence": finished.recurrence, "now": now_ms, "id": finished.id},
    )
    events.append(
        conn,
        "message_received",
        now_ms=now_ms,
        message_id=message_id,
        agent=agent,
        channel=channel,
        session_id=session_id,
        data={"process_after": due_ms},
    )
    return message_id


def end_series(conn: apsw.Connection, finished: Finished, reason: str, *, now_ms: int) -> None:
    """There is no next occurrence: the finished one gives up the recurrence, and an event says why."""
    ((message_id, agent, channel, session_id),) = rows(
        conn,
        "UPDATE messages SET recurrence = NULL WHERE id = :id RETURNING message_id, agent, channel, session_id",
        {"id": finished.id},
    )
    events.append(
        conn,
        "series_ended",
        now_ms=now_ms,
        message_id=message_id,
        agent=agent,
        channel=channel,
        session_id=session_id,
        data={"reason": reason},
    )


def story(conn: apsw.Connection, message_id: str) -> dict[str, Any] | None:
    """One message as the API shows it, or None."""
    found = rows(
        conn,
        """
        SELECT message_id, channel, sender, sender_id, message, agent, kind, status, retry_count, last_error,
               process_after, recurrence, timezone, series_id, created_at, updated_at
          FROM messages
         WHERE message_id = :message_id
        """,
        {"message_id": message_id},
    )
    names = (
        *(
            "messageId",
            "channel",
            "sender",
            "senderId",
            "message",
            "agent",
            "kind",
            "status",
            "retryCount",
            "lastError",
        ),
        *("processAfter", "recurrence", "timezone", "seriesId", "createdAt", "updatedAt"),
    )
    return dict(zip(names, found[0], strict=True)) if found else None


def counts(conn: apsw.Connection) -> dict[str, int]:
    """How many messages wait, run, are dead, and have ever been completed.

    From the partial indexes, so history costs nothing; ids have no gaps but where an operator deleted a dead message.
    """
    open_, pending, processing, dead, resting, newest = rows(
        conn,
        """
        SELECT (SELECT count(*) FROM messages WHERE status = 'pending' OR status = 'processing'),
               (SELECT count(*) FROM messages WHERE status = 'pending' AND trigger = 1),
               (SELECT count(*) FROM messages WHERE status = 'processing' AND trigger = 1),
               (SELECT count(*) FROM messages WHERE status = 'dead'),
               (SELECT count(*) FROM messages WHERE status = 'paused' OR status = 'cancelled'),
               (SELECT ifnull(max(id), 0) FROM messages)
        """,
    )[0]
    return {
        "pending": pending,
        "processing": processing,
        "dead": dead,
        "completed": newest - open_ - dead - resting,
    }


def prune(conn: apsw.Connection, *, after_id: int, older_than_ms: int, limit: int) -> tuple[int, int]:
    """Look at up to *limit* rows that follow *after_id*, and delete those completed before *older_than_ms*.

    Walking by id needs no index on the status of ten million finished rows; it ends where no row looked at is old
    enough, for ids grow with time. The newest row always stays, so that an id is never used twice.

    Returns:
        How many were deleted, and the id to go on after (0: the end was reached, begin again).
    """
    found = rows(
        conn,
        """
        SELECT id, created_at < :cutoff, status = 'completed' AND recurrence IS NULL AND updated_at < :cutoff
          FROM messages
         WHERE id > :after AND id < (SELECT max(id) FROM messages)
         ORDER BY id
         LIMIT :limit
        """,
        {"after": after_id, "cutoff": older_than_ms, "limit": limit},
    )
    doomed = [id_ for id_, _, is_over in found if is_over]
    conn.execute("DELETE FROM messages WHERE id IN (SELECT value FROM json_each(:ids))", {"ids": json.dumps(doomed)})
    is_more = len(found) == limit and any(is_old for _, is_old, _ in found)
    return len(doomed), found[-1][0] if is_more else 0
