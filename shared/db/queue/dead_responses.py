"""Dead responses: an operator sends them again, or deletes them. No function of ours touches them by itself."""

import apsw

from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows, scalar
from shared.db.queue import events, messages, sessions

_NOTES = """
    SELECT id
      FROM messages
     WHERE session_id = :session AND trigger = 0 AND status = 'pending' AND kind = 'system'
       AND content ->> '$.undelivered' = :response
"""


def retry(conn: apsw.Connection, response_id: int, *, now_ms: int) -> None:
    """The response goes out again, or waits to be fetched, with all its attempts. Parts that were sent stay sent.

    Raises:
        NotFound: there is no such response.
        WrongState: the response is not dead.
    """
    found = rows(
        conn,
        """
        UPDATE responses
           SET status = 'pending', retry_count = 0, last_error = NULL, failure = NULL, part_started = NULL,
               unsent_since = NULL, deliver_after = :now, failed_at = :now
         WHERE id = :id AND status = 'dead'
        RETURNING message_id, agent, channel
        """,
        {"id": response_id, "now": now_ms},
    )
    _record(conn, "response_retried", response_id, found, now_ms=now_ms)
    _take_back_notes(conn, response_id, now_ms=now_ms)


def _take_back_notes(conn: apsw.Connection, response_id: int, *, now_ms: int) -> None:
    """The agent that has not read yet that the response was not delivered reads it no more."""
    ((agent, session_id),) = rows(conn, "SELECT agent, session_id FROM responses WHERE id = :id", {"id": response_id})
    session = None if agent is None or session_id is None else sessions.going_on(conn, session_id, agent)
    for (note,) in rows(conn, _NOTES, {"session": session, "response": response_id}):
        messages.cancel(conn, note, reason="the response is sent again", now_ms=now_ms)


DEAD_AFTER = """
    SELECT id
      FROM responses
     WHERE status = 'dead' AND id > :after
     ORDER BY id
     LIMIT :limit
"""


def retry_many(conn: apsw.Connection, *, after: int, limit: int, now_ms: int) -> list[int]:
    """Retry up to *limit* dead responses with ids above *after*, the oldest first; their ids."""
    found = [id_ for (id_,) in rows(conn, DEAD_AFTER, {"after": after, "limit": limit})]
    for response_id in found:
        retry(conn, response_id, now_ms=now_ms)
    return found


_FORGET = """
    DELETE FROM responses
     WHERE (status = 'dead' OR status = 'deleted') AND status = 'deleted' AND id < (SELECT max(id) FROM responses)
"""


def delete(conn: apsw.Connection, response_id: int, *, now_ms: int) -> None:
    """Delete the response. The newest row only loses its text until the next deletion: an id is never used twice.

    Raises:
        NotFound: there is no such response.
        WrongState: the response is not dead.
    """
    found = rows(
        conn,
        """
        UPDATE responses
           SET status = 'deleted', message = '', original_message = '', content = '{}', files = '[]', metadata = '{}',
               recurrence = NULL, last_error = NULL, failure = NULL
         WHERE id = :id AND status = 'dead'
        RETURNING message_id, agent, channel
        """,
        {"id": response_id},
    )
    _record(conn, "response_deleted", response_id, found, now_ms=now_ms)
    conn.execute(_FORGET)


def _record(
    conn: apsw.Connection, type_: str, response_id: int, found: list[tuple[str, str | None, str]], *, now_ms: int
) -> None:
    if not found:
        status = scalar(conn, "SELECT status FROM responses WHERE id = :id", {"id": response_id})
        if status is None or status == "deleted":
            raise NotFound(f"there is no response {response_id}")
        raise WrongState(f"response {response_id} is {status}; only a dead one can be retried or deleted")
    ((message_id, agent, channel),) = found
    events.append(
        conn, type_, now_ms=now_ms, message_id=message_id, response_id=response_id, agent=agent, channel=channel
    )
