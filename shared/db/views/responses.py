"""What the API shows of responses: what waits to be fetched, what was given up, the newest."""

import json
from typing import Any

import apsw

from shared.db.engine.connection import rows
from shared.db.engine.named_rows import Shown, named

_RESPONSE_NAMES = "id channel sender senderId message originalMessage timestamp messageId agent files metadata"

PENDING_OF_CHANNEL = """
    SELECT id, channel, sender, sender_id, message, original_message, created_at, message_id, agent, files, metadata
      FROM responses
     WHERE channel = :channel AND chat_id IS NULL AND status = 'pending'
       AND (deliver_after IS NULL OR deliver_after <= :now)
     ORDER BY id
     LIMIT :limit
"""

PENDING_OF_NO_ADAPTER = """
    SELECT id, channel, sender, sender_id, message, original_message, created_at, message_id, agent, files, metadata
      FROM responses
     WHERE channel = :channel AND chat_id IS NULL AND status = 'pending'
       AND (deliver_after IS NULL OR deliver_after <= :now)
     UNION ALL
    SELECT id, channel, sender, sender_id, message, original_message, created_at, message_id, agent, files, metadata
      FROM responses
     WHERE channel = :channel AND chat_id > 0 AND status = 'pending'
       AND (deliver_after IS NULL OR deliver_after <= :now)
     ORDER BY id
     LIMIT :limit
"""

DEAD_RESPONSES = """
    SELECT id, channel, platform_id, chat_id, sender, sender_id, message, message_id, agent, last_error, retry_count,
           parts <> '[]', created_at
      FROM responses
     WHERE status = 'dead' AND last_error IS NOT 'deleted by hand' AND id < :before
     ORDER BY id DESC
     LIMIT :limit
"""

RECENT = """
    SELECT id, channel, sender, sender_id, message, original_message, created_at, message_id, agent, files, metadata,
           status
      FROM responses
     ORDER BY id DESC
     LIMIT :limit
"""


def _response(names: str, row: tuple[Any, ...]) -> Shown:
    shown = dict(zip(names.split(), row, strict=True))
    for name in ("files", "metadata"):
        shown[name] = json.loads(shown[name])
        if not shown[name]:
            del shown[name]
    return shown


def responses_to_fetch(
    conn: apsw.Connection, channel: str, *, has_adapter: bool, now_ms: int, limit: int
) -> list[Shown]:
    """The responses of *channel* that wait for a program to fetch them, oldest first.

    Where the channel has an adapter of ours, those are the responses without a chat of ours; else all.
    """
    sql = PENDING_OF_CHANNEL if has_adapter else PENDING_OF_NO_ADAPTER
    found = rows(conn, sql, {"channel": channel, "now": now_ms, "limit": limit})
    return [_response(_RESPONSE_NAMES, row) for row in found]


def dead_responses(conn: apsw.Connection, *, before: int, limit: int) -> list[Shown]:
    """The responses that were given up, newest first; *isPartlySent*: some of it has reached the person."""
    found = named(
        "id channel platformId chatId sender senderId message messageId agent lastError retryCount isPartlySent "
        "createdAt",
        rows(conn, DEAD_RESPONSES, {"before": before, "limit": limit}),
    )
    return [{**each, "isPartlySent": bool(each["isPartlySent"])} for each in found]


def recent_responses(conn: apsw.Connection, *, limit: int) -> list[Shown]:
    """The newest responses, newest first."""
    return [_response(_RESPONSE_NAMES + " status", row) for row in rows(conn, RECENT, {"limit": limit})]
