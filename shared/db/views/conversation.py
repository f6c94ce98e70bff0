"""A conversation as its people saw it, newest first: what they wrote, what was answered, what was held or dropped."""

from typing import Any, Literal, NotRequired

import apsw
from typing_extensions import TypedDict

from shared.db.engine.connection import rows
from shared.db.views import books, why_sentences, work
from shared.db.views.desk import pages
from shared.db.views.desk.conversations import like
from shared.db.views.desk.pages import Paged
from shared.db.views.why import SEARCHED, DroppedFacts, HeldFacts, Of
from shared.db.views.why import dropped as dropped_facts
from shared.db.views.why import held as held_facts
from shared.db.views.why import response as response_facts
from shared.db.views.work import WorkRow

_LONGEST = 20_000  # characters of a text


class TalkAnswer(TypedDict):
    """What an agent said, and how its delivery stands: *state*, *reason*, *until* as in ``GET /api/why``."""

    id: int
    agent: str | None
    text: str
    createdAt: int
    sentAt: int | None
    attempts: int
    state: str
    reason: str
    until: int | None


class TalkLine(Paged):
    """One of: a *message* with what was *said* to it; what an agent said of itself (*said* alone); an event without its
    text that waits for an approval or was dropped (*apart*, with its *reason*).
    """

    what: Literal["message", "said", "apart"]
    message: NotRequired[WorkRow]
    said: NotRequired[list[TalkAnswer]]
    sender: NotRequired[str]
    state: NotRequired[str]
    reason: NotRequired[str]
    until: NotRequired[int | None]
    approval: NotRequired[str]


TABLES = ("messages", "responses", "held", "dropped")
_MESSAGES = """
    SELECT id
      FROM messages
     WHERE id > (SELECT max(id) FROM messages) - :searched AND id < :before
       AND channel = :channel AND platform_id = :platform_id AND from_agent IS NULL
       AND NOT (status = 'pending' AND ifnull(process_after, 0) > :now AND failure IS NULL)  -- planned: not said yet
       AND (:like IS NULL OR message LIKE :like ESCAPE '!'
            OR EXISTS (SELECT 1 FROM responses r WHERE r.in_reply_to = messages.id AND r.message LIKE :like ESCAPE '!'))
     ORDER BY id DESC
     LIMIT :limit
"""
_ANSWERS = """
    SELECT id, agent, substr(message, 1, :longest), created_at, acked_at, retry_count
      FROM responses
     WHERE in_reply_to = :row AND status <> 'deleted'
       AND (chat_id = :chat OR (chat_id IS NULL AND channel = :channel AND platform_id = :platform_id))
     ORDER BY id
     LIMIT 50
"""
_OWN = """
    SELECT id, agent, substr(message, 1, :longest), created_at, acked_at, retry_count
      FROM responses
     WHERE id > ifnull((SELECT id FROM responses ORDER BY id DESC LIMIT 1 OFFSET :searched), 0)
       AND id >= :first AND id < :before AND chat_id = :chat AND (:like IS NULL OR message LIKE :like ESCAPE '!')
       AND (in_reply_to IS NULL
                                OR NOT EXISTS (SELECT 1
                                                 FROM messages m
                                                WHERE m.id = in_reply_to AND m.channel = :channel
                                                  AND m.platform_id = :platform_id))
     ORDER BY id DESC
     LIMIT :limit
"""
_TEXT = "SELECT substr(message, 1, :longest) FROM messages WHERE id = :row"


def read(
    conn: apsw.Connection,
    chat_id: int,
    channel: str,
    platform_id: str,
    *,
    cursor: str | None,
    before_ms: int,
    limit: int,
    now_ms: int,
    words: str | None = None,
) -> list[TalkLine]:
    """The newest lines after *cursor* or before *before_ms*, newest first.

    They are those of the newest 50 000 messages of all chats.
    *words*: only the lines with this text, and none of those whose text is not shown.
    """
    below = pages.begin(conn, TABLES, cursor=cursor, before_ms=before_ms)
    place = {"channel": channel, "platform_id": platform_id, "chat": chat_id, "longest": _LONGEST}
    at = {**place, "limit": limit, "searched": SEARCHED, "now": now_ms}
    at["like"] = None if words is None else f"%{like(words)}%"
    asked: list[tuple[int, TalkLine]] = []
    for (id_,) in rows(conn, _MESSAGES, _only({**at, "before": below["messages"]}, _MESSAGES)):
        row = work.one(conn, id_, now_ms=now_ms)
        if row is not None:
            row["text"] = rows(conn, _TEXT, {"row": id_, "longest": _LONGEST})[0][0]
            said = [_said(conn, *found, now_ms=now_ms) for found in rows(conn, _ANSWERS, {**place, "row": id_})]
            asked.append((id_, {"what": "message", "at": row["createdAt"], "cursor": "", "message": row, "said": said}))
    # A page of messages that is full reaches back to the oldest of them: what was said before is for the next page.
    since = books.first_since(conn, "responses", asked[-1][1]["at"]) if len(asked) == limit else 1
    own = rows(conn, _OWN, _only({**at, "first": since, "before": below["responses"]}, _OWN))
    lines = {"messages": asked, "responses": [_own(conn, *found, now_ms=now_ms) for found in own]}
    if words is None:
        of = Of(channel=channel, platform_id=platform_id)
        held = held_facts(conn, of, before=below["held"], limit=limit)
        dropped = dropped_facts(conn, of, before=below["dropped"], limit=limit)
        lines["held"] = [(each.id, _held(each)) for each in held]
        lines["dropped"] = [(each.id, _dropped(each)) for each in dropped]
    return pages.merged(below, lines, limit=limit)


def _only(values: dict[str, object], sql: str) -> dict[str, object]:
    return {name: value for name, value in values.items() if f":{name}" in sql}


def _said(
    conn: apsw.Connection,
    id_: int,
    agent: str | None,
    text: str,
    created_at: int,
    sent_at: int | None,
    attempts: int,
    *,
    now_ms: int,
) -> TalkAnswer:
    facts = response_facts(conn, id_, now_ms=now_ms)
    state, reason, until = why_sentences.of_response(facts, now_ms=now_ms) if facts else ("gone", "", None)
    return {
        "id": id_,
        "agent": agent,
        "text": text,
        "createdAt": created_at,
        "sentAt": sent_at,
        "attempts": attempts,
        "state": state,
        "reason": reason,
        "until": until,
    }


def _own(conn: apsw.Connection, *found: Any, now_ms: int) -> tuple[int, TalkLine]:
    said = _said(conn, *found, now_ms=now_ms)
    return said["id"], {"what": "said", "at": said["createdAt"], "cursor": "", "said": [said]}


def _held(facts: HeldFacts) -> TalkLine:
    reason = why_sentences.of_held(facts)
    line: TalkLine = {"what": "apart", "at": facts.created_at, "cursor": "", "sender": facts.place.sender}
    more: TalkLine = {**line, "state": reason.state, "reason": reason.reason, "until": reason.until}
    return {**more, "approval": facts.approval_id}


def _dropped(facts: DroppedFacts) -> TalkLine:
    reason = why_sentences.of_dropped(facts)
    line: TalkLine = {"what": "apart", "at": facts.created_at, "cursor": "", "sender": facts.place.sender}
    return {**line, "state": facts.reason, "reason": reason.reason, "until": None}
