"""Stores messages, and writes the events of their arrival."""

from typing import NamedTuple

import apsw

from shared.core import ids
from shared.db.engine import meta
from shared.db.engine.connection import rows, scalar
from shared.db.queue import event_keys
from shared.db.queue.messages.looking import find


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
    scheduled_at: int | None = None
    series_id: str | None = None
    while_busy: str | None = None
    given_id: str | None = None


_COLUMNS = ("message_id", "created_at", "updated_at", *NewMessage._fields[:-1])  # without given_id

_ids = ids.Burst()

_AT = {name: f"?{place}" for place, name in enumerate(_COLUMNS, 1)}  # by position, see ``connection.insert_into``

# A platform's event is left out where the agent has it, or where its message was pruned a while ago.
_INSERT = f"""
    INSERT INTO messages ({", ".join(_COLUMNS)})
    SELECT {", ".join(_AT.values())}
     WHERE NOT EXISTS (SELECT 1
                         FROM event_keys
                        WHERE channel = {_AT["channel"]} AND event_key = {_AT["event_key"]} AND agent = {_AT["agent"]})
    ON CONFLICT (message_id) DO NOTHING
    ON CONFLICT (channel, event_key, agent) WHERE event_key IS NOT NULL DO NOTHING
"""  # noqa: S608


def enqueue(conn: apsw.Connection, new: NewMessage, *, now_ms: int) -> int | None:
    """Store the message: one INSERT, and another one for each random id that another message has.

    Returns:
        The row's id, or None if this agent already has this platform event, or had it not long ago.

    Raises:
        apsw.ConstraintError: another message has this ``given_id``, or had it not long ago.
    """
    if new.given_id is not None:
        return _enqueue_given(conn, new, new.given_id, now_ms=now_ms)
    for _ in range(ids.DRAWS):
        conn.execute(_INSERT, (_ids.new(new.id_prefix), now_ms, now_ms, *new[:-1]))
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
    conn.execute(_INSERT, values)
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
