"""What the API shows of responses: those to fetch, the dead ones, the newest."""

from typing import Any, Literal, NotRequired, TypeVar

import apsw
from typing_extensions import TypedDict

from shared.core import content
from shared.db.engine.connection import rows
from shared.db.engine.named_rows import named
from shared.db.views import why, why_sentences
from shared.db.views.why_sentences import Reason
from shared.db.views.work import FILTERED, Filter


class ResponseView(TypedDict):
    """A response: its text, its recipient, and the message that it answers."""

    id: int
    channel: str
    sender: str
    senderId: str | None
    message: str
    originalMessage: str
    timestamp: int
    messageId: str
    agent: str | None
    files: NotRequired[list[str]]
    metadata: NotRequired[dict[str, Any]]


class RecentResponse(ResponseView):
    """A response, and the state of its delivery."""

    status: Literal["pending", "delivering", "acked", "dead", "paused"]


class DeadResponse(Reason):
    """A dead response, and why. *isPartlySent*: some parts of it have arrived; a retry does not send them again."""

    id: int
    channel: str
    platformId: str | None
    chatId: int | None
    sender: str
    senderId: str | None
    message: str
    messageId: str
    agent: str | None
    lastError: str | None
    retryCount: int
    isPartlySent: bool
    createdAt: int


AnyResponseView = TypeVar("AnyResponseView", bound=ResponseView)

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

DEAD_RESPONSES = f"""
    SELECT id, channel, platform_id, chat_id, sender, sender_id, message, message_id, agent, last_error, retry_count,
           parts <> '[]', created_at
      FROM responses
     WHERE status = 'dead' {FILTERED}
     ORDER BY id DESC
     LIMIT :limit
"""

RECENT = """
    SELECT id, channel, sender, sender_id, message, original_message, created_at, message_id, agent, files, metadata,
           status
      FROM responses
     WHERE status <> 'deleted' AND (message <> '' OR files <> '[]')
     ORDER BY id DESC
     LIMIT :limit
"""


def _without_empty(found: list[AnyResponseView]) -> list[AnyResponseView]:
    """The responses without the empty ``files`` and ``metadata`` that most of them have, as TinyAGI shows them."""
    for each in found:
        if not each["files"]:
            del each["files"]
        if not each["metadata"]:
            del each["metadata"]
    return found


def responses_to_fetch(
    conn: apsw.Connection, channel: str, *, has_adapter: bool, now_ms: int, limit: int
) -> list[ResponseView]:
    """The responses of *channel* that a client has to fetch, oldest first.

    If the channel has an adapter, those are the responses without a chat; otherwise all.
    """
    sql = PENDING_OF_CHANNEL if has_adapter else PENDING_OF_NO_ADAPTER
    found = rows(conn, sql, {"channel": channel, "now": now_ms, "limit": limit})
    return _without_empty(named(ResponseView, found, files=content.file_paths, metadata=content.readable))


def dead_responses(conn: apsw.Connection, wanted: Filter, *, limit: int, now_ms: int) -> list[DeadResponse]:
    """The dead responses, newest first."""
    if wanted.reason not in (None, "answer_dead"):
        return []
    listed: list[DeadResponse] = []
    for row in rows(conn, DEAD_RESPONSES, {**wanted.values(), "limit": limit}):
        facts = why.response(conn, row[0], now_ms=now_ms)
        if facts is not None:
            because = why_sentences.of_response(facts, now_ms=now_ms)
            listed += named(DeadResponse, [(*because, *row)], isPartlySent=bool)
    return listed


def recent_responses(conn: apsw.Connection, *, limit: int) -> list[RecentResponse]:
    """The newest responses, newest first; without the empty ones, which end a message that got no answer."""
    found = rows(conn, RECENT, {"limit": limit})
    return _without_empty(named(RecentResponse, found, files=content.file_paths, metadata=content.readable))
