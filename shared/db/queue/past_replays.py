"""Replays in a copy of the past: a conversation given again, message by message, to a session of its own.

Such a session is born closed, because it takes the place of none: the sessions of the past stay as they were, and no
message comes to it but those that are given. It is the only kind of session that runs in a copy of the past.
"""

from collections.abc import Collection

import apsw

from shared.core import ids
from shared.core.errors import WrongState
from shared.db.engine.connection import rows, scalar
from shared.db.engine.past import Past
from shared.db.queue.ready_sessions import ReadySession
from shared.db.queue.sessions import Session

_BEGIN = """
    INSERT INTO sessions (session_id, agent, chat_id, thread_id, private_to, status, closed_at, replays, created_at,
                          last_active)
    VALUES (:session_id, :agent, :chat, :thread, :private_to, 'closed', :now, :replays, :now, :now)
    ON CONFLICT (session_id) DO NOTHING
    RETURNING id
"""


def begin(conn: apsw.Connection, original: Session, agent: str, *, now_ms: int) -> int:
    """Make a session of *agent* that replays *original*, in the same place; returns its row."""
    key = {"chat": original.chat_id, "thread": original.thread_id, "private_to": original.private_to}
    made: int | None = None
    while made is None:
        new = {"session_id": ids.new("session"), "agent": agent, "replays": original.id, "now": now_ms}
        made = scalar(conn, _BEGIN, {**key, **new})
    return made


# As `replays.copy`, to another agent and outside of every conversation between agents.
_GIVE = """
    INSERT INTO messages (message_id, id_prefix, kind, channel, chat_id, platform_id, thread_id, platform_message_id,
                          sender, sender_id, message, content, files, agent, session_id, msg_type, trigger,
                          created_at, updated_at)
    SELECT :message_id, m.channel, m.kind, m.channel, m.chat_id, m.platform_id, m.thread_id, m.platform_message_id,
           m.sender, m.sender_id, m.message, json_set(m.content, '$.replay_of', m.message_id), m.files, :agent, :replay,
           m.msg_type, m.trigger, :now, :now
      FROM messages m
     WHERE m.id = :row AND m.session_id = :original
    ON CONFLICT (message_id) DO NOTHING
    RETURNING message_id
"""
_CHANNEL = "SELECT channel FROM messages WHERE id = :row AND session_id = :original"


def give(conn: apsw.Connection, replay: Session, message_row: int, *, now_ms: int) -> str:
    """Give the message of the original session in this row to the replay; returns the id of the copy.

    Raises:
        WrongState: *replay* replays nothing, or the session that it replays has no such message.
    """
    key = {"row": message_row, "original": replay.replays}
    channel: str | None = scalar(conn, _CHANNEL, key)
    if channel is None:
        raise WrongState(f"session {replay.session_id} does not replay a session with the message {message_row}")
    given: str | None = None
    while given is None:
        copied = {"message_id": ids.new(channel), "agent": replay.agent, "replay": replay.id, "now": now_ms}
        given = scalar(conn, _GIVE, {**key, **copied})
    return given


_SESSIONS = "SELECT id FROM sessions WHERE id > :newest AND replays IS NOT NULL"

_READY = f"""
    SELECT s.id, s.agent, min(m.id)
      FROM sessions s
      JOIN messages m ON m.agent = s.agent AND m.session_id = s.id
     WHERE s.id IN ({_SESSIONS})
       AND m.trigger = 1 AND (m.status = 'pending' OR m.status = 'processing') AND m.status = 'pending'
       AND (m.process_after IS NULL OR m.process_after <= :now)
     GROUP BY s.id
     ORDER BY min(m.id)
"""  # noqa: S608

_WAITING = f"""
    SELECT 1
      FROM sessions s
      JOIN messages m ON m.agent = s.agent AND m.session_id = s.id
     WHERE s.id IN ({_SESSIONS})
       AND m.trigger = 1 AND (m.status = 'pending' OR m.status = 'processing') AND m.status = 'pending'
     LIMIT 1
"""  # noqa: S608


def sessions(conn: apsw.Connection, past: Past) -> set[int]:
    """The rows of all replays' sessions."""
    return {row_id for (row_id,) in rows(conn, _SESSIONS, {"newest": past.newest_session})}


def ready(conn: apsw.Connection, past: Past, *, now_ms: int, busy: Collection[str] = ()) -> list[ReadySession]:
    """The replays with a due message, the oldest first, one an agent; none of the agents that are *busy*."""
    found: dict[str, ReadySession] = {}
    for session, agent, head in rows(conn, _READY, {"newest": past.newest_session, "now": now_ms}):
        if agent not in busy and agent not in found:
            found[agent] = ReadySession(session, agent, head)
    return list(found.values())


def is_waiting(conn: apsw.Connection, past: Past) -> bool:
    """Whether a replay has a message that waits, due or not."""
    return bool(rows(conn, _WAITING, {"newest": past.newest_session}))
