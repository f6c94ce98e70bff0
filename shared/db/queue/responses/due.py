"""Which responses may go out, and when the next ones may."""

import json
from collections.abc import Collection
from typing import NamedTuple

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
    SELECT head.id, open.chat_id, c.platform_id, c.is_group
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


class Head(NamedTuple):
    """The oldest response of a chat, which may go out now."""

    id: int
    chat_id: int
    platform_id: str
    is_group: int


def due_heads(conn: apsw.Connection, channel: str, *, now_ms: int, held: Collection[int] = ()) -> list[Head]:
    """As ``heads``, with their chats."""
    found = (Head(*row) for row in rows(conn, HEADS, {"channel": channel, "now": now_ms}))
    return sorted(head for head in found if head.chat_id not in held)


def heads(conn: apsw.Connection, channel: str, *, now_ms: int, held: Collection[int] = ()) -> list[int]:
    """The oldest response of each chat of *channel* that may go out now, oldest first.

    Args:
        held: the chats to which this process still sends, even if its leases have ended.
    """
    return [head.id for head in due_heads(conn, channel, now_ms=now_ms, held=held)]


class WaitingResponse(NamedTuple):
    """A response of a chat that waits for its turn.

    Attributes:
        is_due: it may go out now; else it waits for its retry.
        has_begun: it failed, or parts of it are sent, so that those behind it wait for it.
    """

    id: int
    sender_id: str | None
    kind: str
    is_due: bool
    has_begun: bool


def waiting(conn: apsw.Connection, channel: str, chat_id: int, *, now_ms: int, limit: int) -> list[WaitingResponse]:
    """The oldest responses of the chat that wait, oldest first; not those that are planned for later."""
    found = rows(
        conn,
        """
        SELECT id, sender_id, kind, ifnull(deliver_after, 0) <= :now, failure IS NOT NULL OR parts <> '[]'
          FROM responses
         WHERE channel = :channel AND chat_id = :chat AND status = 'pending'
           AND (deliver_after IS NULL OR deliver_after <= :now OR failure IS NOT NULL)
         ORDER BY id
         LIMIT :limit
        """,
        {"channel": channel, "chat": chat_id, "now": now_ms, "limit": limit},
    )
    return [WaitingResponse(id_, sender, kind, bool(due), bool(begun)) for id_, sender, kind, due, begun in found]


_NEWEST_EVENTS = 50_000  # hold all of a minute


def sent_since(conn: apsw.Connection, since_ms: int) -> list[tuple[str, str, int, int]]:
    """What was sent at *since_ms* or later, in order: channel, ``platform_id``, the instant, and how many parts."""
    found = rows(
        conn,
        """
        SELECT r.channel, r.platform_id, e.created_at, max(json_array_length(r.parts), 1)
          FROM events e
          JOIN responses r ON r.id = e.response_id
         WHERE e.id > ifnull((SELECT id FROM events ORDER BY id DESC LIMIT 1 OFFSET :newest), 0)
           AND e.type = 'response_acked' AND e.created_at >= :since AND r.platform_id IS NOT NULL
         ORDER BY e.id
        """,
        {"newest": _NEWEST_EVENTS, "since": since_ms},
    )
    return [(channel, platform_id, at_ms, parts) for channel, platform_id, at_ms, parts in found]


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
