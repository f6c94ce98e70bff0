"""Messages: what came in, and what people and programs do to it. ``claims`` has what turns do to it.

::

                 paused ── resume (series) ──┐
                   ^                         │
                   └── pause (series) ──┐    v
    enqueue ────────────────────────> pending ── cancel ──> cancelled
                                        │  ^                    ^
                                  claim │  │ retry, release     │
                                        v  │                    │
                                     processing ── cancel: the turn loses its claim
                                        │  └── fail ──> dead ── retry by hand ──> pending
                                        └── settle ──> completed

Each change is one UPDATE that names the expected state. Storing a message writes its row and nothing else; ``announce``
writes the events of arrival, many at once.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Unpack

import apsw

from shared.core import ids
from shared.core.errors import NotFound, WrongState
from shared.db.engine import meta
from shared.db.engine.connection import insert_into, rows, scalar
from shared.db.queue import event_keys, events
from shared.db.queue.events import EventData

_ANNOUNCE = """
    INSERT INTO events (type, message_id, agent, channel, session_id, data, created_at)
    SELECT 'message_received', message_id, agent, channel, session_id,
           CASE WHEN process_after IS NULL THEN '{}' ELSE json_object('process_after', process_after) END, created_at
      FROM messages
     WHERE id > :after AND id <= :last
     ORDER BY id
"""
_LAST_TO_ANNOUNCE = "SELECT max(id) FROM (SELECT id FROM messages WHERE id > :after ORDER BY id LIMIT :limit)"
_ANNOUNCE_AT_ONCE = 500


class NewMessage(NamedTuple):
    """A message to store, by the columns of its table; the session is already resolved.

    ``id_prefix`` begins the visible id, whose rest is random. A caller may give a whole id instead (``given_id``).
    ``content`` and ``files`` are JSON texts.
    """

    id_prefix: str = "api"
    channel: str = "api"
    chat_id: int | None = None
    platform_id: str | None = None
    thread_id: str | None = None
    platform_message_id: str | None = None
    event_key: str | None = None
    sender: str = ""
    sender_id: str | None = None
    message: str = ""
    content: str = "{}"
    files: str = "[]"
    agent: str = ""
    session_id: int = 0
    kind: str = "chat"
    from_agent: str | None = None
    conversation_id: str | None = None
    msg_type: str = "message"
    urgency: str = "normal"
    reply_to: int | None = None
    thread_root: int | None = None
    trigger: bool = True
    status: str = "pending"
    process_after: int | None = None
    recurrence: str | None = None
    timezone: str | None = None
    misfire: str = "coalesce"
    scheduled_at: int | None = None
    series_id: str | None = None
    given_id: str | None = None


_COLUMNS = ("message_id", "created_at", "updated_at", *NewMessage._fields[:-1])  # without given_id

# Nearly every message has the defaults of what follows ``session_id``; binding those takes time and gains nothing.
_PLAIN = NewMessage._fields.index("session_id") + 1
_DEFAULTS = NewMessage()[_PLAIN:]

_ONCE = " ON CONFLICT (channel, event_key, agent) WHERE event_key IS NOT NULL DO NOTHING"
_OTHER_ID = " ON CONFLICT (message_id) DO NOTHING"


def _insert_event(columns: Sequence[str]) -> str:
    """An INSERT of a platform's event, unless the message of the same event was pruned a while ago."""
    at = {name: f"?{columns.index(name) + 1}" for name in columns}
    return (
        f"INSERT INTO messages ({', '.join(columns)}) SELECT {', '.join(at.values())} WHERE NOT EXISTS (SELECT 1"  # noqa: S608
        f" FROM event_keys WHERE channel = {at['channel']} AND event_key = {at['event_key']} AND agent = {at['agent']})"
        f"{_ONCE}"
    )


def _inserts(columns: Sequence[str]) -> dict[bool, str]:
    """By whether the message is a platform's event."""
    return {False: insert_into("messages", columns), True: _insert_event(columns)}


_INSERTS = {False: _inserts(_COLUMNS), True: _inserts(_COLUMNS[: 3 + _PLAIN])}  # by whether it is plain
_ENQUEUES = {
    is_plain: {False: inserts[False] + _OTHER_ID, True: inserts[True].replace(_ONCE, _OTHER_ID + _ONCE)}
    for is_plain, inserts in _INSERTS.items()
}


def enqueue(conn: apsw.Connection, new: NewMessage, *, now_ms: int) -> int | None:
    """Store the message: one INSERT, and another one for each random id that another message has.

    Returns:
        The row's id, or None if this agent already has this platform event, or had it not long ago.

    Raises:
        apsw.ConstraintError: another message has this ``given_id``, or had it not long ago.
    """
    if new.given_id is not None:
        return _enqueue_given(conn, new, new.given_id, now_ms=now_ms)
    run = conn.cursor().execute
    is_plain = new[_PLAIN:] == _DEFAULTS
    sql = _ENQUEUES[is_plain][new.event_key is not None]
    values = new[:_PLAIN] if is_plain else new[:-1]
    for _ in range(ids.DRAWS):
        run(sql, (ids.new(new.id_prefix), now_ms, now_ms, *values))
        if conn.changes():
            return conn.last_insert_rowid()
        if new.event_key is not None and _has_message(conn, new):
            return None
    raise apsw.ConstraintError(f"other messages have {ids.DRAWS} random ids {new.id_prefix}_...")


def _enqueue_given(conn: apsw.Connection, new: NewMessage, given_id: str, *, now_ms: int) -> int | None:
    """A message whose id has no prefix of ours, which tells ``prune`` that a caller may repeat it."""
    if find(conn, given_id) is not None or event_keys.is_given(conn, given_id):
        raise apsw.ConstraintError(f"another message has the id {given_id!r}")
    values = (given_id, now_ms, now_ms, *new._replace(id_prefix=event_keys.GIVEN)[:-1])
    conn.execute(_INSERTS[False][new.event_key is not None], values)
    return conn.last_insert_rowid() if conn.changes() else None


_HAS_MESSAGE = """
    SELECT 1
      FROM messages
     WHERE channel = :channel AND event_key = :event_key AND agent = :agent
     UNION ALL
    SELECT 1
      FROM event_keys
     WHERE channel = :channel AND event_key = :event_key AND agent = :agent
"""


def _has_message(conn: apsw.Connection, new: NewMessage) -> bool:
    key = {"channel": new.channel, "event_key": new.event_key, "agent": new.agent}
    return bool(rows(conn, _HAS_MESSAGE, key))


HAS_EVENT = """
    SELECT 1
      FROM messages
     WHERE channel = :channel AND event_key = :event_key
     UNION ALL
    SELECT 1
      FROM event_keys
     WHERE channel = :channel AND event_key = :event_key
     LIMIT 1
"""


def has_event(conn: apsw.Connection, channel: str, event_key: str) -> bool:
    """Whether any agent has a message of this platform event, or had one not long ago."""
    return bool(scalar(conn, HAS_EVENT, {"channel": channel, "event_key": event_key}))


def enqueue_many(conn: apsw.Connection, news: Iterable[NewMessage], *, now_ms: int) -> None:
    """Store messages without a ``given_id``, in order; an event that an agent already has is left out."""
    for is_plain, group in groupby(news, key=lambda new: new[_PLAIN:] == _DEFAULTS):
        _store_group(conn, list(group), is_plain=is_plain, now_ms=now_ms)


def _store_group(conn: apsw.Connection, group: Sequence[NewMessage], *, is_plain: bool, now_ms: int) -> None:
    sql = _INSERTS[is_plain][any(new.event_key is not None for new in group)]
    end = _PLAIN if is_plain else -1
    drawn = _draw(conn, group)
    conn.executemany(sql, ((id_, now_ms, now_ms, *new[:end]) for id_, new in zip(drawn, group, strict=True)))


_TAKEN = "SELECT 1 FROM messages WHERE message_id IN (SELECT value FROM json_each(?)) LIMIT 1"


def _draw(conn: apsw.Connection, group: Sequence[NewMessage]) -> list[str]:
    """An id for each. One that a message has would end the statement, which must not store a part of them."""
    for _ in range(ids.DRAWS):
        drawn = ids.several([new.id_prefix for new in group])
        if len(set(drawn)) == len(drawn) and not rows(conn, _TAKEN, (json.dumps(drawn),)):
            break
    return drawn


def announce(conn: apsw.Connection) -> int:
    """Write the events of arrival of the messages stored since the last call, oldest first; returns how many.

    Dispatch calls it. Row ids grow in the order of the commits, so every row after the last announced one is new.
    """
    after = int(meta.get(conn, "announced") or 0)
    last: int | None = scalar(conn, _LAST_TO_ANNOUNCE, {"after": after, "limit": _ANNOUNCE_AT_ONCE})
    if last is None:
        return 0
    conn.execute(_ANNOUNCE, {"after": after, "last": last})
    count = conn.changes()
    meta.put(conn, "announced", str(last))
    return count


def is_unannounced(conn: apsw.Connection) -> bool:
    """Whether ``announce`` has something to do."""
    return bool(
        scalar(
            conn,
            """
            SELECT max(id) > (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'announced')
              FROM messages
            """,
        )
    )


def find(conn: apsw.Connection, message_id: str) -> int | None:
    """The row of the message with this visible id, or None."""
    found: int | None = scalar(conn, "SELECT id FROM messages WHERE message_id = :id", {"id": message_id})
    return found


def id_of(conn: apsw.Connection, row_id: int) -> str:
    """The visible id of the message in this row, which exists."""
    message_id: str = scalar(conn, "SELECT message_id FROM messages WHERE id = :id", {"id": row_id})
    return message_id


class MessageRef(NamedTuple):
    """What events and callers need of a message that was changed by hand."""

    id: int
    message_id: str
    agent: str
    channel: str
    session_id: int


_CANCEL_WAITING = """
    UPDATE messages
       SET status = 'cancelled', last_error = :reason, failure = NULL, updated_at = :now
     WHERE id = :id AND (status = 'pending' OR status = 'paused')
    RETURNING id, message_id, agent, channel, session_id
"""

_CANCEL_RUNNING = """
    UPDATE messages
       SET status = 'cancelled', claimed_by = NULL, lease = NULL, last_error = :reason, failure = NULL,
           updated_at = :now
     WHERE id = :id AND status = 'processing'
    RETURNING id, message_id, agent, channel, session_id
"""


def cancel(conn: apsw.Connection, row_id: int, *, reason: str, now_ms: int) -> MessageRef:
    """No turn takes the message (again). A turn that has it loses its claim on the whole batch.

    The other messages of that batch are pending again, and no attempt is counted. Of a series, this occurrence is left
    out and the next one follows; ``series.cancel`` ends the series.

    Raises:
        NotFound: there is no such message.
        WrongState: the message is completed, dead or cancelled already.
    """
    waiting = rows(conn, _CANCEL_WAITING, {"id": row_id, "reason": reason, "now": now_ms})
    if not waiting:
        return cancel_running(conn, row_id, reason=reason, now_ms=now_ms)
    cancelled = MessageRef._make(waiting[0])
    _record(conn, "message_cancelled", cancelled, now_ms=now_ms, reason=reason)
    return cancelled


def cancel_running(conn: apsw.Connection, row_id: int, *, reason: str, now_ms: int) -> MessageRef:
    """As ``cancel``, for a message that a turn has.

    Raises:
        NotFound: there is no such message.
        WrongState: no turn has the message.
    """
    running = rows(conn, _CANCEL_RUNNING, {"id": row_id, "reason": reason, "now": now_ms})
    cancelled = _changed(conn, row_id, running, "cancelled")
    _record(conn, "message_cancelled", cancelled, now_ms=now_ms, reason=reason, running=True)
    _release_batch(conn, cancelled, reason=reason, now_ms=now_ms)
    return cancelled


# A session has one turn at a time, so its rows that are being processed are that turn's batch.
_RELEASE_BATCH = """
    UPDATE messages
       SET status = 'pending', claimed_by = NULL, lease = NULL, updated_at = :now
     WHERE status = 'processing'
       AND id IN (SELECT id
                    FROM messages
                   WHERE agent = :agent AND session_id = :session AND trigger = 1 AND status = 'processing'
                   UNION ALL
                  SELECT id
                    FROM messages
                   WHERE session_id = :session AND trigger = 0 AND status = 'processing')
    RETURNING id, message_id, trigger
"""


def _release_batch(conn: apsw.Connection, cancelled: MessageRef, *, reason: str, now_ms: int) -> None:
    """The rest of the batch is pending again, as if no turn had taken it."""
    key = {"agent": cancelled.agent, "session": cancelled.session_id, "now": now_ms}
    for row_id, message_id, trigger in sorted(rows(conn, _RELEASE_BATCH, key)):
        if trigger:
            released = cancelled._replace(id=row_id, message_id=message_id)
            _record(conn, "message_released", released, now_ms=now_ms, reason=reason)


_REPLACE = """
    UPDATE messages
       SET message = :message, content = :content, files = :files, updated_at = :now
     WHERE id = :id AND (status = 'pending' OR status = 'paused')
    RETURNING id, message_id, agent, channel, session_id
"""


def replace(conn: apsw.Connection, row_id: int, *, message: str, content: str, files: str, now_ms: int) -> bool:
    """Give a message that still waits another text, content and files. False: it waits no more."""
    found = rows(conn, _REPLACE, {"id": row_id, "message": message, "content": content, "files": files, "now": now_ms})
    for row in found:
        _record(conn, "message_edited", MessageRef._make(row), now_ms=now_ms)
    return bool(found)


_RETRY = """
    UPDATE messages
       SET status = 'pending', retry_count = 0, last_error = NULL, failure = NULL, waits_since = NULL,
           process_after = NULL, updated_at = :now
     WHERE id = :id AND status = 'dead'
    RETURNING id, message_id, agent, channel, session_id
"""


def retry(conn: apsw.Connection, row_id: int, *, now_ms: int) -> MessageRef:
    """A dead message is due at once, with all its attempts before it.

    Raises:
        NotFound: there is no such message.
        WrongState: the message is not dead.
    """
    retried = _changed(conn, row_id, rows(conn, _RETRY, {"id": row_id, "now": now_ms}), "retried")
    _record(conn, "message_retried", retried, now_ms=now_ms)
    return retried


RETRY_MANY = """
    UPDATE messages
       SET status = 'pending', retry_count = 0, last_error = NULL, failure = NULL, waits_since = NULL,
           process_after = NULL, updated_at = :now
     WHERE id IN (SELECT id
                    FROM messages
                   WHERE status = 'dead' AND id > :after
                   ORDER BY id
                   LIMIT :limit)
    RETURNING id, message_id, agent, channel, session_id
"""


def retry_many(conn: apsw.Connection, *, after: int, limit: int, now_ms: int) -> list[MessageRef]:
    """Retry up to *limit* dead messages with rows above *after*; the oldest first."""
    found = rows(conn, RETRY_MANY, {"after": after, "limit": limit, "now": now_ms})
    retried = [MessageRef._make(row) for row in sorted(found)]
    for each in retried:
        _record(conn, "message_retried", each, now_ms=now_ms)
    return retried


_DELETE = """
    UPDATE messages
       SET status = 'cancelled', message = '', content = '{}', files = '[]', recurrence = NULL, updated_at = :now
     WHERE id = :id AND status = 'dead'
    RETURNING id, message_id, agent, channel, session_id
"""


def delete(conn: apsw.Connection, row_id: int, *, now_ms: int) -> MessageRef:
    """Delete a dead message. The newest row only loses its text: an id is never used twice.

    Raises:
        NotFound: there is no such message.
        WrongState: the message is not dead.
    """
    deleted = _changed(conn, row_id, rows(conn, _DELETE, {"id": row_id, "now": now_ms}), "deleted")
    _record(conn, "message_deleted", deleted, now_ms=now_ms)
    event_keys.keep(conn, [row_id], forgotten_ms=now_ms - event_keys.KEPT_MS)
    conn.execute("DELETE FROM messages WHERE id = :id AND id < (SELECT max(id) FROM messages)", {"id": row_id})
    return deleted


def _changed(conn: apsw.Connection, row_id: int, found: list[tuple[Any, ...]], verb: str) -> MessageRef:
    """The message that the UPDATE changed; if it changed none, the error says why."""
    if found:
        return MessageRef._make(found[0])
    now = rows(conn, "SELECT message_id, status FROM messages WHERE id = :id", {"id": row_id})
    if not now:
        raise NotFound(f"there is no message {row_id}")
    ((message_id, status),) = now
    raise WrongState(f"message {message_id} is {status}; it can't be {verb}")


def _record(conn: apsw.Connection, type_: str, message: MessageRef, *, now_ms: int, **data: Unpack[EventData]) -> None:
    events.append(
        conn,
        type_,
        now_ms=now_ms,
        message_id=message.message_id,
        agent=message.agent,
        channel=message.channel,
        session_id=message.session_id,
        data=data or None,
    )


# What is planned for later; a message that waits for a retry is not. By the index of the delayed messages.
PLANNED = """
    SELECT agent, count(*)
      FROM messages INDEXED BY messages_delayed
     WHERE process_after > :now AND status = 'pending' AND trigger = 1 AND failure IS NULL
     GROUP BY agent
"""


def planned_by_agent(conn: apsw.Connection, *, now_ms: int) -> dict[str, int]:
    """How many messages of each agent are planned for later: they have not come in yet."""
    return dict(rows(conn, PLANNED, {"now": now_ms}))


def counts(conn: apsw.Connection) -> dict[str, int]:
    """How many messages are pending (planned ones too), processing, dead, and have ever been completed.

    Partial indexes answer, so history costs nothing. Ids have gaps only where an operator deleted a dead message.
    """
    open_, context, pending, processing, dead, resting, newest = rows(
        conn,
        """
        SELECT (SELECT count(*) FROM messages WHERE trigger = 1 AND (status = 'pending' OR status = 'processing')),
               (SELECT count(*) FROM messages WHERE trigger = 0 AND (status = 'pending' OR status = 'processing')),
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
        "completed": newest - open_ - context - dead - resting,
    }


_PRUNABLE = """
    SELECT id, created_at < :cutoff,
           (status = 'completed' OR status = 'cancelled') AND recurrence IS NULL AND updated_at < :cutoff
               AND (from_agent IS NULL OR status = 'cancelled' OR updated_at < :mail_cutoff)
      FROM messages
     WHERE id > :after AND id < (SELECT max(id) FROM messages)
     ORDER BY id
     LIMIT :limit
"""

# The newest completed messages between agents stay, however old.
_OLDEST_KEPT_MAIL = """
    SELECT updated_at
      FROM messages
     WHERE from_agent IS NOT NULL AND status = 'completed'
     ORDER BY updated_at DESC
     LIMIT 1 OFFSET :kept
"""
_KEPT_MAIL = 1000


def prune(
    conn: apsw.Connection, *, after_id: int, older_than_ms: int, limit: int, forgotten_ms: int = 0
) -> tuple[int, int]:
    """Look at up to *limit* rows after *after_id*, and delete those that ended before *older_than_ms*.

    Walking by id needs no index on the status of ten million finished rows. Ids grow with time, so the walk ends where
    no row is old enough. The newest row stays, so that an id is never used twice, and so do the newest thousand
    messages between agents. What makes a late copy known stays in ``event_keys``.

    Args:
        forgotten_ms: of messages that came before this instant, nothing is kept.

    Returns:
        How many were deleted, and the id after which to go on (0: the end was reached, begin again).
    """
    mail_cutoff = scalar(conn, _OLDEST_KEPT_MAIL, {"kept": _KEPT_MAIL - 1}) or 0
    found = rows(
        conn, _PRUNABLE, {"after": after_id, "cutoff": older_than_ms, "mail_cutoff": mail_cutoff, "limit": limit}
    )
    doomed = [id_ for id_, _, is_over in found if is_over]
    event_keys.keep(conn, doomed, forgotten_ms=forgotten_ms)
    conn.execute("DELETE FROM messages WHERE id IN (SELECT value FROM json_each(:ids))", {"ids": json.dumps(doomed)})
    if len(found) < limit or not any(is_old for _, is_old, _ in found):
        return len(doomed), 0
    last, *_ = found[-1]
    return len(doomed), last
