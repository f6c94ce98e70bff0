"""What people and programs do to one message, or to all dead ones."""

from typing import Any, NamedTuple

import apsw

from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows
from shared.db.queue import event_keys, events


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
    waiting = cancel_waiting(conn, row_id, reason=reason, now_ms=now_ms)
    return waiting or cancel_running(conn, row_id, reason=reason, now_ms=now_ms)


def cancel_waiting(conn: apsw.Connection, row_id: int, *, reason: str, now_ms: int) -> MessageRef | None:
    """As ``cancel``, for a message that waits; None: it does not, and nothing is done."""
    waiting = rows(conn, _CANCEL_WAITING, {"id": row_id, "reason": reason, "now": now_ms})
    if not waiting:
        return None
    cancelled = MessageRef._make(waiting[0])
    events.append_about(conn, "message_cancelled", cancelled, {"reason": reason}, now_ms=now_ms)
    return cancelled


def cancel_running(conn: apsw.Connection, row_id: int, *, reason: str, now_ms: int) -> MessageRef:
    """As ``cancel``, for a message that a turn has.

    Raises:
        NotFound: there is no such message.
        WrongState: no turn has the message.
    """
    running = rows(conn, _CANCEL_RUNNING, {"id": row_id, "reason": reason, "now": now_ms})
    cancelled = _changed(conn, row_id, running, "cancelled")
    events.append_about(conn, "message_cancelled", cancelled, {"reason": reason, "running": True}, now_ms=now_ms)
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
            events.append_about(conn, "message_released", released, {"reason": reason}, now_ms=now_ms)


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
        events.append_about(conn, "message_edited", MessageRef._make(row), now_ms=now_ms)
    return bool(found)


_RETRY = """
    UPDATE messages
       SET status = 'pending', retry_count = 0, last_error = NULL, failure = NULL, waits_since = NULL,
           process_after = NULL, runs_alone = NULL, suspicion = NULL, updated_at = :now
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
    events.append_about(conn, "message_retried", retried, now_ms=now_ms)
    return retried


DEAD_AFTER = """
    SELECT id
      FROM messages
     WHERE status = 'dead' AND id > :after
     ORDER BY id
     LIMIT :limit
"""


def retry_many(conn: apsw.Connection, *, after: int, limit: int, now_ms: int) -> list[MessageRef]:
    """Retry up to *limit* dead messages with rows above *after*; the oldest first."""
    found = rows(conn, DEAD_AFTER, {"after": after, "limit": limit})
    return [retry(conn, row_id, now_ms=now_ms) for (row_id,) in found]


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
    events.append_about(conn, "message_deleted", deleted, now_ms=now_ms)
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
