"""Finds messages by their ids, and counts them."""

import json
from collections.abc import Iterable

import apsw

from shared.core.errors import NotFound
from shared.db.engine.connection import rows, scalar


def find(conn: apsw.Connection, message_id: str) -> int | None:
    """The row of the message with this visible id, or None."""
    found: int | None = scalar(conn, "SELECT id FROM messages WHERE message_id = :id", {"id": message_id})
    return found


def known(conn: apsw.Connection, message_id: str) -> int:
    """The row of the message with this visible id.

    Raises:
        NotFound: there is none.
    """
    row_id = find(conn, message_id)
    if row_id is None:
        raise unknown(message_id)
    return row_id


def unknown(message_id: str) -> NotFound:
    """The error of an id that no message has."""
    return NotFound(
        f"no message {message_id!r}: it never became one (GET /api/why finds what was held or dropped), it was "
        "discarded, or it is older than POSTROOM_RETENTION_MS"
    )


def id_of(conn: apsw.Connection, row_id: int) -> str:
    """The visible id of the message in this row, which exists."""
    message_id: str = scalar(conn, "SELECT message_id FROM messages WHERE id = :id", {"id": row_id})
    return message_id


def files(conn: apsw.Connection, row_id: int) -> str:
    """The attachments of the message in this row, which exists, as JSON."""
    found: str = scalar(conn, "SELECT files FROM messages WHERE id = :id", {"id": row_id})
    return found


def statuses(conn: apsw.Connection, message_ids: Iterable[str]) -> dict[str, str]:
    """The status of each of these messages that is still there, by its visible id."""
    sql = "SELECT message_id, status FROM messages WHERE message_id IN (SELECT value FROM json_each(:ids))"
    return dict(rows(conn, sql, {"ids": json.dumps(list(message_ids))}))


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
