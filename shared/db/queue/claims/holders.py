"""Who holds which messages, and what is in them."""

import apsw

from shared.core.errors import ClaimLost
from shared.db.engine.connection import rows, scalar
from shared.db.queue.claims.rows import Claim
from shared.db.queue.message_row import COLUMNS, Message, readable_message_of
from shared.db.queue.ready_sessions import FIRSTS, OPEN_AGENTS

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

READABLE = f"""
    SELECT {COLUMNS}
      FROM messages
     WHERE id = :id
"""

_HOLDER = "SELECT agent, session_id FROM messages WHERE id = :id AND status = 'processing'"

FILES = """
    SELECT message_id, files
      FROM messages
     WHERE id IN (SELECT value FROM json_each(:ids)) AND files <> '[]'
     ORDER BY id
"""


_KEEP_FILES = """
    UPDATE messages
       SET files = :files,
           content = CASE WHEN message = '' THEN json_set(content, '$.only_files', :words) ELSE content END,
           updated_at = :now
     WHERE id = :id AND status = 'processing' AND claimed_by = :token
"""


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


def of_turn(conn: apsw.Connection, agent: str, session_id: int, token: str) -> Claim | None:
    """The claim of the turn with this token, if it holds the session's messages."""
    found = rows(conn, RUNNING, {"agent": agent, "session": session_id})
    if not found or found[0][0] != token:
        return None
    return Claim(token, session_id, agent, tuple(readable_message_of(row) for _, _, *row in found))


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


def readable(conn: apsw.Connection, row_id: int) -> Message | None:
    """The message in this row, with an empty content where that can't be read; None: there is no such row."""
    found = rows(conn, READABLE, {"id": row_id})
    return readable_message_of(found[0]) if found else None


def files(conn: apsw.Connection, claim: Claim) -> list[tuple[str, str]]:
    """The messages of the batch that have attachments, and their attachments as JSON, in the order of the batch."""
    return [(message_id, found) for message_id, found in rows(conn, FILES, {"ids": claim.ids})]


def keep_files(conn: apsw.Connection, claim: Claim, row_id: int, files: str, words: str, *, now_ms: int) -> None:
    """Write what is known of the attachments of a message of the batch by now.

    Args:
        words: the attachments in words, for the history of a message without a text.

    Raises:
        ClaimLost: the turn does not hold the message any more.
    """
    found = {"id": row_id, "token": claim.token, "files": files, "words": words, "now": now_ms}
    conn.execute(_KEEP_FILES, found)
    if conn.changes() == 0:
        raise ClaimLost(f"turn {claim.token} does not hold its message {row_id} any more")
