"""Which responses may go out, and when the next ones may."""

import json
from collections.abc import Collection

import apsw

from shared.db.engine.connection import rows, scalar
from shared.db.queue.responses.rows import FailureCode

# A loose scan over the chats of one channel that have open responses.
OPEN_CHATS = """
    WITH RECURSIVE open (chat_id) AS (
        SELECT min(chat_id)
          FROM responses
         WHERE (status = 'pending' OR status = 'delivering') AND channel = :channel
         UNION ALL
        SELECT (SELECT min(r.chat_id)
                  FROM responses r
                 WHERE (r.status = 'pending' OR r.status = 'delivering') AND r.channel = :channel
                   AND r.chat_id > open.chat_id)
          FROM open
         WHERE open.chat_id IS NOT NULL
    )
"""

HEADS = f"""
    {OPEN_CHATS}
    SELECT head.id, open.chat_id
      FROM open
      JOIN chats c ON c.id = open.chat_id
      JOIN responses head
        ON head.id = (SELECT r.id
                        FROM responses r
                       WHERE r.channel = :channel AND r.chat_id = open.chat_id AND r.status = 'pending'
                         AND (r.deliver_after IS NULL OR r.deliver_after <= :now OR r.failure IS NOT NULL)
                       ORDER BY r.id
                       LIMIT 1)
     WHERE ifnull(c.not_before, 0) <= :now
       AND (head.deliver_after IS NULL OR head.deliver_after <= :now)
       AND NOT EXISTS (SELECT 1
                         FROM responses r
                        WHERE r.channel = :channel AND r.chat_id = open.chat_id AND r.status = 'delivering')
"""


def heads(conn: apsw.Connection, channel: str, *, now_ms: int, held: Collection[int] = ()) -> list[int]:
    """The oldest response of each chat of *channel* that may go out now, oldest first.

    Args:
        held: the chats to which this process still sends, even if its leases have ended.
    """
    found = rows(conn, HEADS, {"channel": channel, "now": now_ms})
    return sorted(head for head, chat in found if chat not in held)


def trial(conn: apsw.Connection, channel: str, *, now_ms: int, held: Collection[int] = ()) -> int | None:
    """The head with which to try whether the platform works again: one that has not failed, else the longest ago."""
    found: int | None = scalar(
        conn,
        """
        SELECT id
          FROM responses
         WHERE id IN (SELECT value FROM json_each(:heads))
         ORDER BY deliver_after IS NOT NULL, deliver_after, id
         LIMIT 1
        """,
        {"heads": json.dumps(heads(conn, channel, now_ms=now_ms, held=held))},
    )
    return found


def waiting_since(
    conn: apsw.Connection, channel: str, *, outage_began_at: int, past_ms: int, now_ms: int, limit: int
) -> list[tuple[int, FailureCode | None]]:
    """The due responses that have waited for the platform since *past_ms* or longer, each with its last failure."""
    found = rows(
        conn,
        """
        SELECT id, failure
          FROM responses
         WHERE (status = 'pending' OR status = 'delivering') AND channel = :channel AND status = 'pending'
           AND (deliver_after IS NULL OR deliver_after <= :now)
           AND ifnull(unsent_since, max(created_at, ifnull(deliver_after, 0), :began)) <= :past
         ORDER BY id
         LIMIT :limit
        """,
        {"channel": channel, "began": outage_began_at, "past": past_ms, "now": now_ms, "limit": limit},
    )
    return [(id_, failure) for id_, failure in found]


def next_due(conn: apsw.Connection, channel: str, *, now_ms: int) -> int | None:
    """The instant in ms at which the next planned response or retry of *channel* becomes due, or None."""
    due: int | None = scalar(
        conn,
        """
        SELECT min(deliver_after)
          FROM responses
         WHERE channel = :channel AND status = 'pending' AND deliver_after > :now
        """,
        {"channel": channel, "now": now_ms},
    )
    return due
