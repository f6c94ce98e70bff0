"""Claims responses, gives them back, and lists those that are claimed."""

import apsw

from shared.db.engine.connection import rows
from shared.db.queue.responses.due import OPEN_CHATS
from shared.db.queue.responses.rows import COLUMNS, COLUMNS_SQL, Response, claimed_row, readable_row
from shared.db.queue.schedules import schedule_runs
from shared.db.queue.schedules.settings import IS_LATE

_CLAIM = f"""
    UPDATE responses
       SET status = 'delivering', claimed_by = :token, lease = :lease, part_started = json_array_length(parts)
     WHERE id = :id AND status = 'pending' AND (deliver_after IS NULL OR deliver_after <= :now)
       AND NOT {IS_LATE.format(table="responses")}
    RETURNING series_id, scheduled_at, (SELECT opens_for FROM chats WHERE id = chat_id),
              (SELECT status = 'inactive' FROM chats WHERE id = chat_id), {COLUMNS_SQL}
"""


def claim(conn: apsw.Connection, response_id: int, *, token: str, now_ms: int, lease_ms: int) -> Response | None:
    """Claim one head, and record that the sending of its next part begins; None if it is no longer due, or too late.

    The record stands before the platform is called: if no answer comes, the row says that the part may have been sent.

    Raises:
        RowInvalid: its content can't be read; the caller's transaction or savepoint must roll back.
    """
    found = rows(conn, _CLAIM, {"token": token, "lease": now_ms + lease_ms, "now": now_ms, "id": response_id})
    if not found:
        return None
    ((series_id, scheduled_at, opens_for, is_inactive, *row),) = found
    claimed = claimed_row(row, token, opens_for, is_inactive=bool(is_inactive))
    if series_id is not None and scheduled_at is not None:
        schedule_runs.begin(conn, "responses", response_id, now_ms=now_ms)
    return claimed


def readable(conn: apsw.Connection, response_id: int) -> Response | None:
    """The pending response with this id, with an empty content where that can't be read; None: it is not pending."""
    found = rows(
        conn,
        f"SELECT {COLUMNS_SQL} FROM responses WHERE id = :id AND status = 'pending'",
        {"id": response_id},
    )
    return readable_row(found[0], "", None) if found else None


_DELIVERING = f"""
    {OPEN_CHATS}
    SELECT r.lease, r.claimed_by, (SELECT c.opens_for FROM chats c WHERE c.id = r.chat_id),
           {", ".join(f"r.{column}" for column in COLUMNS)}
      FROM open
     CROSS JOIN responses r
     WHERE r.channel = :channel AND r.chat_id = open.chat_id AND r.status = 'delivering'
     ORDER BY r.id
"""


def delivering(conn: apsw.Connection, channel: str) -> list[tuple[Response, int]]:
    """The responses of *channel* that are being sent, each with the end of its lease in ms."""
    found = rows(conn, _DELIVERING, {"channel": channel})
    return [(readable_row(row, token, opens_for), lease) for lease, token, opens_for, *row in found]
