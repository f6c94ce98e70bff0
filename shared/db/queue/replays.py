"""The messages of a closed session: which move to its successor, which end, and which are copied by a replay."""

import json
from collections.abc import Sequence

import apsw
from typing_extensions import TypedDict

from shared.core import ids
from shared.db.engine.connection import rows, scalar
from shared.db.engine.named_rows import named
from shared.db.queue.sessions import Session, known

_LEFT_AT_ONCE = 500  # rows; 40 000 would hold the write lock for most of a second. `forget` takes the rest later

MOVE = """
    UPDATE messages
       SET session_id = :new, updated_at = :now
     WHERE agent = :agent AND session_id = :old AND trigger = 1 AND (status = 'pending' OR status = 'processing')
       AND status = 'pending' AND series_id IS NOT NULL AND failure IS NULL AND process_after > :now
"""

MOVE_PAUSED = """
    UPDATE messages
       SET session_id = :new, updated_at = :now
     WHERE (status = 'paused' OR status = 'cancelled') AND status = 'paused' AND session_id = :old
       AND series_id IS NOT NULL
"""


def move_planned(conn: apsw.Connection, old: Session, new: int, *, now_ms: int) -> None:
    """Move the planned messages of a closed session that have not begun to its successor."""
    key = {"agent": old.agent, "old": old.id, "new": new, "now": now_ms}
    conn.execute(MOVE, key)
    conn.execute(MOVE_PAUSED, {name: key[name] for name in ("old", "new", "now")})


LEAVE = """
    UPDATE messages
       SET status = 'completed', updated_at = :now
     WHERE id IN (SELECT id
                    FROM messages
                   WHERE session_id = :session AND trigger = 0 AND status = 'pending'
                     AND id > (SELECT ifnull(max(id), 0)
                                 FROM messages
                                WHERE agent = :agent AND session_id = :session AND trigger = 1
                                  AND (status = 'pending' OR status = 'processing'))
                   ORDER BY id DESC
                   LIMIT :limit)
"""


def leave_context(conn: apsw.Connection, old: Session, *, now_ms: int, limit: int = _LEFT_AT_ONCE) -> int:
    """Complete the context of a closed session that no turn will ask for; returns how many rows."""
    conn.execute(LEAVE, {"session": old.id, "agent": old.agent, "now": now_ms, "limit": limit})
    return conn.changes()


# A loose scan: one step of the index for each session with pending context.
LEFT = """
    WITH RECURSIVE waiting (session_id) AS (
        SELECT min(session_id)
          FROM messages
         WHERE trigger = 0 AND (status = 'pending' OR status = 'processing')
         UNION ALL
        SELECT (SELECT min(m.session_id)
                  FROM messages m
                 WHERE m.trigger = 0 AND (m.status = 'pending' OR m.status = 'processing')
                   AND m.session_id > waiting.session_id)
          FROM waiting
         WHERE waiting.session_id IS NOT NULL
    )
    SELECT s.id
      FROM waiting
      JOIN sessions s ON s.id = waiting.session_id AND s.status = 'closed'
     WHERE NOT EXISTS (SELECT 1
                         FROM messages m
                        WHERE m.agent = s.agent AND m.session_id = s.id AND m.trigger = 1
                          AND (m.status = 'pending' OR m.status = 'processing'))
     LIMIT :limit
"""


def forget(conn: apsw.Connection, *, limit: int, now_ms: int) -> int:
    """Complete the context that is still pending in closed sessions without an open trigger; returns how many rows.

    It was beyond the bound when the session was closed, or the message that would have taken it was cancelled since.
    """
    count = 0
    for (session,) in rows(conn, LEFT, {"limit": limit}):
        old = known(conn, session)
        count += leave_context(conn, old, now_ms=now_ms, limit=limit - count)
    return count


_SAID = """
    SELECT id, session_id = :session AND status <> 'cancelled' AND status <> 'paused'
               AND NOT (series_id IS NOT NULL AND status = 'pending')
      FROM messages
     WHERE id < :before
     ORDER BY id DESC
     LIMIT :look_at
"""


def find_messages(conn: apsw.Connection, session: int, *, before: int, look_at: int) -> tuple[list[int], int]:
    """Look at *look_at* rows before the row *before*, newest first, for messages of the session.

    No index has messages by their session: it would cost an insert more for each message, and this is rarely asked. So
    the search takes steps. Cancelled and paused messages, and planned ones that have not begun, are left out.

    Returns:
        The rows, newest first, and the row before which to go on (0: the end was reached).
    """
    found = rows(conn, _SAID, {"session": session, "before": before, "look_at": look_at})
    mine = [row_id for row_id, is_mine in found if is_mine]
    if len(found) < look_at:
        return mine, 0
    last, _ = found[-1]
    return mine, last


# An interaction's token, with which a platform takes an answer at once, belongs to the first answer: see `replies`.
_COPY = """
    INSERT INTO messages (message_id, id_prefix, kind, channel, chat_id, platform_id, thread_id, platform_message_id,
                          sender, sender_id, message, content, files, agent, from_agent, session_id, conversation_id,
                          msg_type, trigger, created_at, updated_at)
    SELECT :message_id, :prefix, kind, channel, chat_id, platform_id, thread_id, platform_message_id, sender,
           sender_id, message, json_set(content, '$.replay_of', message_id), files, agent, from_agent, :new,
           conversation_id, msg_type, trigger, :now, :now
      FROM messages
     WHERE id = :row AND session_id = :old
    ON CONFLICT (message_id) DO NOTHING
"""
_PREFIX = (
    "SELECT CASE id_prefix WHEN '' THEN channel ELSE id_prefix END FROM messages WHERE id = :row AND session_id = :old"
)


def copy(conn: apsw.Connection, message_rows: Sequence[int], *, from_session: int, to_session: int, now_ms: int) -> int:
    """Copy the messages in these rows to another session, in order; returns how many.

    A copy has no platform event and no series, is not urgent, and its ``content.replay_of`` names the original.
    """
    key = {"old": from_session, "new": to_session, "now": now_ms}
    return sum(_copy(conn, {**key, "row": row_id}) for row_id in sorted(message_rows))


def _copy(conn: apsw.Connection, key: dict[str, int]) -> bool:
    """Copy one message; False: it was pruned, or is of another session."""
    prefix: str | None = scalar(conn, _PREFIX, {"row": key["row"], "old": key["old"]})
    for _ in range(ids.DRAWS if prefix is not None else 0):
        conn.execute(_COPY, {**key, "prefix": prefix, "message_id": ids.new(prefix or "")})
        if conn.changes():
            return True
    return False


class SessionMessage(TypedDict):
    """A message of a session and the answers that are still kept; *replayOf*: the id of the original message."""

    id: int
    messageId: str
    kind: str
    sender: str
    message: str
    trigger: bool
    status: str
    lastError: str | None
    replayOf: str | None
    createdAt: int
    updatedAt: int
    answers: list[str]


SHOWN = """
    SELECT id, message_id, kind, sender, message, trigger, status, last_error, content ->> '$.replay_of', created_at,
           updated_at, id
      FROM messages
     WHERE id IN (SELECT value FROM json_each(:rows))
     ORDER BY id
"""

ANSWERS = """
    SELECT in_reply_to, message
      FROM responses
     WHERE in_reply_to IN (SELECT value FROM json_each(:rows)) AND status <> 'deleted'
     ORDER BY id
"""


def story(conn: apsw.Connection, message_rows: Sequence[int]) -> list[SessionMessage]:
    """These messages, oldest first, each with its answers that are still stored."""
    key = {"rows": json.dumps(list(message_rows))}
    answers: dict[int, list[str]] = {}
    for message, text in rows(conn, ANSWERS, key):
        answers.setdefault(message, []).append(text)
    return named(SessionMessage, rows(conn, SHOWN, key), trigger=bool, answers=lambda row: answers.get(row, []))
