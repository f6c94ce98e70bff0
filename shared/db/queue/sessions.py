"""Sessions: one agent's continuing context in one chat or thread.

::

    ensure ──> active ── reset, replay ──> closed, and a new session of the same key is active
               active ── its schedule is over ──> closed

The *key* is the agent, the chat (none: the agent's own session, for its mailbox and for ``agent-shared`` wirings),
the thread (none: the whole chat), the person to whom it is private (none: everybody there), and the schedule whose
runs alone it has (none: all that is said there). An index allows one active session a key. Pending messages of a closed
session still run there; no new message comes to it.
"""

from collections.abc import Iterable
from typing import NamedTuple

import apsw
import msgspec

from shared.core import ids
from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows, scalar
from shared.db.queue.claims import Claim

_SELECT = """
    SELECT id, session_id, agent, chat_id, thread_id, private_to, status, continuation, replays, created_at,
           last_active, closed_at, continued_by, strangers_at, series_id
      FROM sessions
"""


class Session(msgspec.Struct, frozen=True):
    """A row of ``sessions``.

    Attributes:
        id: the row's id, which ``session_id`` of other tables refers to.
        session_id: the visible id, ``session_...``.
        private_to: the one person whose private messages it has, by the platform's id; None: not private.
        continuation: the provider's own token for going on; None: the next turn begins a new context.
        replays: the row of the session whose messages this one got again.
        continued_by: the provider that gave the continuation; None: an earlier release stored it, or there is none.
            Without a continuation: a person had it forgotten.
        strangers_at: the instant in ms at which words of a person whom the agent does not know came in; None: none did.
        series_id: the schedule whose own session it is; None: it is no schedule's.
        last_active: the instant in ms at which its last turn ended, or at which it was made.
    """

    id: int
    session_id: str
    agent: str
    chat_id: int | None
    thread_id: str | None
    private_to: str | None
    status: str
    continuation: str | None
    replays: int | None
    created_at: int
    last_active: int
    closed_at: int | None
    continued_by: str | None = None
    strangers_at: int | None = None
    series_id: str | None = None


class _Key(NamedTuple):
    agent: str
    chat: int | None
    thread: str | None
    private_to: str | None
    series_id: str | None = None


class SessionCounts(NamedTuple):
    """How many messages of a session are open; *context* counts pending messages that ask for no turn."""

    pending: int
    processing: int
    context: int


def get(conn: apsw.Connection, id_: int) -> Session | None:
    """The session in this row, or None."""
    found = rows(conn, _SELECT + " WHERE id = :id", {"id": id_})
    return Session(*found[0]) if found else None


def known(conn: apsw.Connection, id_: int) -> Session:
    """The session in this row; a foreign key guarantees that it exists."""
    (found,) = rows(conn, _SELECT + " WHERE id = :id", {"id": id_})
    return Session(*found)


def find(conn: apsw.Connection, session_id: str) -> Session | None:
    """The session with this visible id, or None."""
    found = rows(conn, _SELECT + " WHERE session_id = :id", {"id": session_id})
    return Session(*found[0]) if found else None


ACTIVE = """
    SELECT id
      FROM sessions
     WHERE agent = :agent AND ifnull(chat_id, 0) = ifnull(:chat, 0)
       AND ifnull(thread_id, '') = ifnull(:thread, '') AND ifnull(private_to, '') = ifnull(:private_to, '')
       AND ifnull(series_id, '') = ifnull(:series_id, '') AND status = 'active'
"""

_BEGIN = """
    INSERT INTO sessions (session_id, agent, chat_id, thread_id, private_to, series_id, replays, created_at,
                          last_active)
    VALUES (:session_id, :agent, :chat, :thread, :private_to, :series_id, :replays, :now, :now)
    ON CONFLICT (session_id) DO NOTHING
    ON CONFLICT (agent, ifnull(chat_id, 0), ifnull(thread_id, ''), ifnull(private_to, ''), ifnull(series_id, ''))
       WHERE status = 'active' DO NOTHING
    RETURNING id
"""


def active(
    conn: apsw.Connection,
    agent: str,
    chat_id: int | None,
    thread_id: str | None,
    *,
    private_to: str | None = None,
    series_id: str | None = None,
) -> int | None:
    """The row of the key's active session, or None if there never was one."""
    found: int | None = scalar(conn, ACTIVE, (agent, chat_id, thread_id, private_to, series_id))  # by name: twice
    return found


def ensure(
    conn: apsw.Connection,
    agent: str,
    chat_id: int | None,
    thread_id: str | None,
    *,
    private_to: str | None = None,
    series_id: str | None = None,
    now_ms: int,
) -> int:
    """The row of the key's active session, made if there is none; of two that are made at once, an index keeps one."""
    key = _Key(agent, chat_id, thread_id, private_to, series_id)
    found: int | None = None
    while found is None:  # again if another process made it between the two statements: outside a transaction only
        found = active(conn, agent, chat_id, thread_id, private_to=private_to, series_id=series_id)
        if found is None:
            found = _begin(conn, key, None, now_ms=now_ms)
    return found


def _begin(conn: apsw.Connection, key: _Key, replays: int | None, *, now_ms: int) -> int | None:
    new = {"session_id": ids.new("session"), "replays": replays, "now": now_ms}
    made: int | None = scalar(conn, _BEGIN, {**key._asdict(), **new})
    return made


def close(conn: apsw.Connection, id_: int, *, now_ms: int) -> Session:
    """Close the session: no new message comes to it. Returns the closed session.

    Raises:
        NotFound: there is no such session.
        WrongState: the session is closed already.
    """
    closed = rows(
        conn,
        """
        UPDATE sessions
           SET status = 'closed', closed_at = :now
         WHERE id = :id AND status = 'active'
        RETURNING id
        """,
        {"id": id_, "now": now_ms},
    )
    if closed:
        return known(conn, id_)
    before = get(conn, id_)
    if before is None:
        raise NotFound(f"there is no session {id_}")
    raise WrongState(f"session {before.session_id} is closed already")


# A series goes on while it has a planned occurrence, or one that ended and has not handed it on yet.
OF_ENDED_SERIES = """
    UPDATE sessions
       SET status = 'closed', closed_at = :now
     WHERE id IN (SELECT s.id
                    FROM sessions s
                   WHERE s.series_id IS NOT NULL AND s.status = 'active' AND s.last_active < :before
                     AND NOT EXISTS (SELECT 1
                                       FROM messages m
                                      WHERE m.series_id = s.series_id
                                        AND (m.status = 'pending' OR m.status = 'processing' OR m.status = 'paused'))
                     AND NOT EXISTS (SELECT 1
                                       FROM messages m
                                      WHERE m.recurrence IS NOT NULL AND m.series_id = s.series_id
                                        AND (m.status = 'completed' OR m.status = 'dead' OR m.status = 'cancelled'))
                     AND NOT EXISTS (SELECT 1
                                       FROM messages m
                                      WHERE m.agent = s.agent AND m.session_id = s.id AND m.trigger = 1
                                        AND (m.status = 'pending' OR m.status = 'processing'))
                   ORDER BY s.last_active
                   LIMIT :limit)
    RETURNING id
"""


def close_of_ended_series(conn: apsw.Connection, *, idle_since_ms: int, limit: int, now_ms: int) -> list[Session]:
    """Close up to *limit* sessions of schedules that are over, without a turn since *idle_since_ms*; those closed."""
    closed = rows(conn, OF_ENDED_SERIES, {"before": idle_since_ms, "limit": limit, "now": now_ms})
    return [known(conn, id_) for (id_,) in closed]


def succeed(conn: apsw.Connection, before: Session, *, replays: int | None = None, now_ms: int) -> int:
    """Make a new session with the key of the closed session *before*; returns its row.

    Raises:
        WrongState: another session of this key is active.
    """
    key = _Key(before.agent, before.chat_id, before.thread_id, before.private_to, before.series_id)
    made = _begin(conn, key, replays, now_ms=now_ms)
    if made is None:
        raise WrongState(f"another session follows {before.session_id} already")
    return made


def going_on(conn: apsw.Connection, id_: int, agent: str) -> int | None:
    """The active session with the key of *id_*: itself or a successor; None: none, or another agent's."""
    asked = get(conn, id_)
    if asked is None or asked.agent != agent:
        return None
    if asked.status == "active":
        return id_
    return active(conn, agent, asked.chat_id, asked.thread_id, private_to=asked.private_to, series_id=asked.series_id)


_TOUCH = "UPDATE sessions SET last_active = :now WHERE id = :id"
_TOUCH_AND_GO_ON = """
    UPDATE sessions SET last_active = :now, continuation = :continuation, continued_by = :provider WHERE id = :id
"""


def touch(
    conn: apsw.Connection, session_id: int, *, continuation: str | None, provider: str | None = None, now_ms: int
) -> None:
    """A turn ended: record the instant, and the continuation if the provider gave one."""
    values = {"now": now_ms, "id": session_id}
    if continuation is None:
        conn.execute(_TOUCH, values)
    else:
        conn.execute(_TOUCH_AND_GO_ON, {**values, "continuation": continuation, "provider": provider})


def leave_continuations(conn: apsw.Connection, ids_: Iterable[int | None]) -> None:
    """Let the next turns of these sessions begin a fresh session of the program, from what is left of the history."""
    conn.executemany(
        "UPDATE sessions SET continuation = NULL WHERE id = :id AND continuation IS NOT NULL",
        [{"id": each} for each in ids_],
    )


def note_strangers(conn: apsw.Connection, id_: int, *, now_ms: int) -> None:
    """Words of a person whom the agent does not know come into the session."""
    conn.execute(
        "UPDATE sessions SET strangers_at = :now WHERE id = :id AND strangers_at IS NULL", {"id": id_, "now": now_ms}
    )


# By the chat, whose sessions are few; an agent may have a session in each of very many chats.
_OF_ITS_KEY = """
    EXISTS (SELECT 1
              FROM sessions s
              JOIN sessions t ON t.agent = s.agent AND {same_chat} AND ifnull(t.thread_id, '') = ifnull(s.thread_id, '')
                             AND ifnull(t.private_to, '') = ifnull(s.private_to, '')
             WHERE s.id = :id AND t.strangers_at IS NOT NULL)
"""
_IN_ITS_CHAT = _OF_ITS_KEY.format(same_chat="t.chat_id = s.chat_id")
_WITHOUT_CHAT = _OF_ITS_KEY.format(same_chat="s.chat_id IS NULL AND t.chat_id IS NULL")
HAD_STRANGERS = f"SELECT {_IN_ITS_CHAT} OR {_WITHOUT_CHAT}"


def had_strangers(conn: apsw.Connection, id_: int) -> bool:
    """Whether words of a stranger came into the session, or into an earlier one of its key."""
    return bool(scalar(conn, HAD_STRANGERS, {"id": id_}))


# Fenced: a turn that lost its claim changes nothing. A batch is always taken away whole, so its first row tells.
_SAVE_CONTINUATION = """
    UPDATE sessions
       SET continuation = :continuation, continued_by = :provider
     WHERE id = :session
       AND EXISTS (SELECT 1
                     FROM messages
                    WHERE id = :message AND status = 'processing' AND claimed_by = :token)
"""


def save_continuation(conn: apsw.Connection, claim: Claim, continuation: str, provider: str | None = None) -> bool:
    """Record what the provider gave while the turn still runs; False: the turn lost its claim, and nothing changed."""
    key = {"session": claim.session_id, "message": claim.batch[0].id, "token": claim.token}
    conn.execute(_SAVE_CONTINUATION, {"continuation": continuation, "provider": provider, **key})
    return conn.changes() == 1


_PAGE = (
    _SELECT
    + """
     WHERE id < :before AND (:agent IS NULL OR agent = :agent) AND (:chat IS NULL OR chat_id = :chat)
       AND (:status IS NULL OR status = :status)
     ORDER BY id DESC
     LIMIT :limit
"""
)


def page(
    conn: apsw.Connection,
    *,
    agent: str | None = None,
    chat_id: int | None = None,
    status: str | None = None,
    before: int = 2**63 - 1,
    limit: int,
) -> list[Session]:
    """Sessions before the row *before*, newest first; only those of this agent, chat and status, where given."""
    key = {"agent": agent, "chat": chat_id, "status": status, "before": before, "limit": limit}
    return [Session(*found) for found in rows(conn, _PAGE, key)]


COUNTS = """
    SELECT (SELECT count(*)
              FROM messages
             WHERE agent = :agent AND session_id = :id AND trigger = 1
               AND (status = 'pending' OR status = 'processing') AND status = 'pending'),
           (SELECT count(*)
              FROM messages
             WHERE agent = :agent AND session_id = :id AND trigger = 1
               AND (status = 'pending' OR status = 'processing') AND status = 'processing'),
           (SELECT count(*)
              FROM messages
             WHERE session_id = :id AND trigger = 0 AND (status = 'pending' OR status = 'processing'))
"""


def counts(conn: apsw.Connection, session: Session) -> SessionCounts:
    """How many of its messages are pending, processing, or open context; counted in the indexes of open messages."""
    (found,) = rows(conn, COUNTS, {"id": session.id, "agent": session.agent})
    return SessionCounts(*found)
