"""What came in and was not answered, each with the reason: what was dropped, what is held, what no agent was asked."""

from typing import Literal

import apsw

from shared.db.engine.connection import rows, savepoint
from shared.db.views import history, why, why_sentences, work
from shared.db.views.desk import pages
from shared.db.views.desk.pages import Paged
from shared.db.views.history import DroppedView
from shared.db.views.why import Of
from shared.db.views.why_sentences import Reason

What = Literal["dropped", "held", "ignored"]


class UnansweredRow(Reason, Paged):
    """An event that got no answer; its text is not shown, or not kept.

    *what*: ``dropped``, ``held`` (for the *approval*), or ``ignored`` (a message that asked no agent, kept as context).
    *code*: the word of what was dropped, else *state*. *id*: for ``GET /api/why``.
    """

    what: What
    id: str
    channel: str
    chatId: int | None
    chatName: str | None
    senderId: str | None
    sender: str
    code: str
    approval: str | None


TABLES = ("dropped", "held", "messages")
_LOOKED_AT = 10_000  # messages
_IGNORED = """
    SELECT id
      FROM messages
     WHERE id > (SELECT max(id) FROM messages) - :looked AND trigger = 0 AND from_agent IS NULL
       AND id < :before
     ORDER BY id DESC
     LIMIT :limit
"""
_CHAT = "SELECT id FROM chats WHERE channel = :channel AND platform_id = :platform_id"


def read(
    conn: apsw.Connection,
    *,
    what: What | None,
    code: str | None,
    cursor: str | None,
    before_ms: int,
    limit: int,
    now_ms: int,
) -> list[UnansweredRow]:
    """The newest after *cursor* or before *before_ms*, newest first.

    What is ignored is looked for among the newest 10 000 messages.
    """
    found: dict[str, list[tuple[int, UnansweredRow]]] = {}
    with savepoint(conn):
        below = pages.begin(conn, TABLES, cursor=cursor, before_ms=before_ms)
        if what in (None, "dropped"):
            dropped = history.dropped(conn, reason=code, before=below["dropped"], limit=limit)
            found["dropped"] = [(each["id"], _dropped(conn, each)) for each in dropped]
        if code is None and what in (None, "held"):
            held = why.held(conn, Of(), before=below["held"], limit=limit)
            found["held"] = [(each.id, _held(conn, each)) for each in held]
        if code is None and what in (None, "ignored"):
            ids = rows(conn, _IGNORED, {"before": below["messages"], "limit": limit, "looked": _LOOKED_AT})
            ignored = (work.one(conn, id_, now_ms=now_ms) for (id_,) in ids)
            found["messages"] = [(each["row"], _ignored(conn, each)) for each in ignored if each is not None]
    return pages.merged(below, found, limit=limit)


def _dropped(conn: apsw.Connection, row: DroppedView) -> UnansweredRow:
    return {
        "what": "dropped",
        "id": f"dropped_{row['id']}",
        "at": row["createdAt"],
        "cursor": "",
        "channel": row["channel"],
        "chatId": _chat_of(conn, row["channel"], row["platformId"]),
        "chatName": row["chatName"],
        "senderId": row["senderId"],
        "sender": row["sender"] or "",
        "code": row["code"],
        "approval": None,
        "state": "dropped",
        "reason": row["reason"],
        "until": None,
    }


def _held(conn: apsw.Connection, facts: why.HeldFacts) -> UnansweredRow:
    reason = why_sentences.of_held(facts)
    return {
        "what": "held",
        "id": f"held_{facts.id}",
        "at": facts.created_at,
        "cursor": "",
        "channel": facts.place.channel,
        "chatId": _chat_of(conn, facts.place.channel, facts.place.platform_id),
        "chatName": facts.place.chat_name,
        "senderId": facts.place.sender_id,
        "sender": facts.place.sender,
        "code": reason.state,
        "approval": facts.approval_id,
        **reason.as_fields(),
    }


def _ignored(conn: apsw.Connection, row: work.WorkRow) -> UnansweredRow:
    return {
        "what": "ignored",
        "id": row["id"],
        "at": row["createdAt"],
        "cursor": "",
        "channel": row["channel"],
        "chatId": _chat_of(conn, row["channel"], row["platformId"]),
        "chatName": row["chatName"],
        "senderId": row["senderId"],
        "sender": row["sender"],
        "code": row["state"],
        "approval": None,
        "state": row["state"],
        "reason": row["reason"],
        "until": row["until"],
    }


def _chat_of(conn: apsw.Connection, channel: str, platform_id: str | None) -> int | None:
    found = rows(conn, _CHAT, {"channel": channel, "platform_id": platform_id}) if platform_id is not None else []
    return found[0][0] if found else None
