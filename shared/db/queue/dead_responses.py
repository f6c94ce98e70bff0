"""Responses that were given up: said once more, or forgotten, by hand. Nothing of ours touches them by itself."""

import apsw

from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows, scalar
from shared.db.queue import events

_DELETED = "deleted by hand"


def retry(conn: apsw.Connection, response_id: int, *, now_ms: int) -> None:
    """It goes out again, or waits to be fetched, with all its attempts before it. Parts that were sent stay sent.

    Raises:
        NotFound: no such response.
        WrongState: it is not dead.
    """
    found = rows(
        conn,
        """
        UPDATE responses
           SET status = 'pending', retry_count = 0, last_error = NULL, part_started = NULL, deliver_after = :now
         WHERE id = :id AND status = 'dead' AND last_error IS NOT :deleted
        RETURNING message_id, agent, channel
        """,
        {"id": response_id, "now": now_ms, "deleted": _DELETED},
    )
    _tell(conn, "response_retried", response_id, found, now_ms=now_ms)


DEAD_AFTER = """
    SELECT id
      FROM responses
     WHERE status = 'dead' AND last_error IS NOT 'deleted by hand' AND id > :after
     ORDER BY id
     LIMIT :limit
"""


def retry_many(conn: apsw.Connection, *, after: int, limit: int, now_ms: int) -> list[int]:
    """As ``retry``, for up to *limit* that are dead, the oldest beyond the id *after* first; which."""
    found = [id_ for (id_,) in rows(conn, DEAD_AFTER, {"after": after, "limit": limit})]
    for response_id in found:
        retry(conn, response_id, now_ms=now_ms)
    return found


def delete(conn: apsw.Connection, response_id: int, *, now_ms: int) -> None:
    """Forget it. Of the newest row only the text goes now, and the row with the next: its id is never used again.

    Raises:
        NotFound: no such response.
        WrongState: it is not dead.
    """
    found = rows(
        conn,
        """
        UPDATE responses
           SET message = '', original_message = '', content = '{}', files = '[]', metadata = '{}', recurrence = NULL,
               last_error = :deleted
         WHERE id = :id AND status = 'dead' AND last_error IS NOT :deleted
        RETURNING message_id, agent, channel
        """,
        {"id": response_id, "deleted": _DELETED},
    )
    _tell(conn, "response_deleted", response_id, found, now_ms=now_ms)
    conn.execute(
        """
        DELETE FROM responses
         WHERE status = 'dead' AND last_error = :deleted AND id < (SELECT max(id) FROM responses)
        """,
        {"deleted": _DELETED},
    )


def _tell(
    conn: apsw.Connection, type_: str, response_id: int, found: list[tuple[str, str | None, str]], *, now_ms: int
) -> None:
    if not found:
        status = scalar(
            conn,
            "SELECT status FROM responses WHERE id = :id AND last_error IS NOT :deleted",
            {"id": response_id, "deleted": _DELETED},
        )
        if status is None:
            raise NotFound(f"no response {response_id}")
        raise WrongState(f"response {response_id} is {status}: only a dead one can be sent again or forgotten")
    ((message_id, agent, channel),) = found
    events.append(
        conn, type_, now_ms=now_ms, message_id=message_id, response_id=response_id, agent=agent, channel=channel
    )
