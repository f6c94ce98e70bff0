"""What came in and was not answered, each with the reason: what was dropped, what is held, what no agent was asked."""

from typing import Literal

import apsw

from shared.db.engine.connection import rows
from shared.db.engine.named_rows import NEWEST
from shared.db.views import books, history, why, why_sentences, work
from shared.db.views.why import Of
from shared.db.views.why_sentences import Reason

What = Literal["dropped", "held", "ignored"]


class UnansweredRow(Reason):
    """An event that got no answer; its text is not shown, or not kept.

    *what*: ``dropped``, ``held`` (for the *approval*), or ``ignored`` (a message that asked no agent, kept as context).
    *code*: the word of what was dropped, else *state*. *id*: for ``GET /api/why``.
    """

    what: What
    id: str
    at: int
    channel: str
    chatId: int | None
    chatName: str | None
    senderId: str | None
    sender: str
    code: str
    approval: str | None


_LOOKED_AT = 10_000  # messages
_IGNORED = """
    SELECT id
      FROM messages
     WHERE id > (SELECT max(id) FROM messages) - :looked AND trigger = 0 AND from_agent IS NULL
       AND created_at < :before
     ORDER BY id DESC
     LIMIT :limit
"""
_CHAT = "SELECT id FROM chats WHERE channel = :channel AND platform_id = :platform_id"


def read(
    conn: apsw.Connection, *, what: What | None, code: str | None, before_ms: int, limit: int, now_ms: int
) -> list[UnansweredRow]:
    """The newest before *before_ms*, newest first. What is ignored is looked for among the newest 10 000 messages."""
    found: list[UnansweredRow] = []
    with conn:
        if what in (None, "dropped"):
            found += _dropped(conn, code, before_ms, limit)
        if code is None and what in (None, "held"):
            found += [_held(conn, each) for each in why.held(conn, Of(), before_ms=before_ms, limit=limit)]
        if code is None and what in (None, "ignored"):
            for (id_,) in rows(conn, _IGNORED, {"before": before_ms, "limit": limit, "looked": _LOOKED_AT}):
                row = work.one(conn, id_, now_ms=now_ms)
                if row is not None:
                    found.append(_ignored(conn, row))
    return sorted(found, key=lambda each: -each["at"])[:limit]


def _dropped(conn: apsw.Connection, code: str | None, before_ms: int, limit: int) -> list[UnansweredRow]:
    before = books.first_since(conn, "dropped", before_ms) if before_ms < NEWEST else NEWEST
    return [
        {
            "what": "dropped",
            "id": f"dropped_{each['id']}",
            "at": each["createdAt"],
            "channel": each["channel"],
            "chatId": _chat_of(conn, each["channel"], each["platformId"]),
            "chatName": each["chatName"],
            "senderId": each["senderId"],
            "sender": each["sender"] or "",
            "code": each["code"],
            "approval": None,
            "state": "dropped",
            "reason": each["reason"],
            "until": None,
        }
        for each in history.dropped(conn, reason=code, before=before, limit=limit)
    ]


def _held(conn: apsw.Connection, facts: why.HeldFacts) -> UnansweredRow:
    reason = why_sentences.of_held(facts)
    return {
        "what": "held",
        "id": f"held_{facts.id}",
        "at": facts.created_at,
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
