"""Messages by what became of them, each with its reason: waiting, running, dead, done. And answers to send."""

import json
from typing import Literal, NamedTuple

import apsw

from shared.db.engine.connection import rows
from shared.db.views import spending, why, why_sentences
from shared.db.views.why import SEARCHED, Of
from shared.db.views.why_sentences import Reason

State = Literal["waiting", "running", "dead", "done"]
_SHOWN = 400  # characters of a text
_LOOKED_AT = 500  # rows of which a reason is looked for


class WorkRow(Reason):
    """A message and why it stands where it stands: *state*, *reason*, *until* as in ``GET /api/why``.

    *text*: the first 400 characters. *cost*: micro-dollars, null where none is known.
    """

    row: int
    id: str
    createdAt: int
    updatedAt: int
    channel: str
    platformId: str | None
    chatName: str | None
    senderId: str | None
    sender: str
    agent: str
    text: str
    attempts: int
    cost: int | None
    series: str | None


class Filter(NamedTuple):
    """Which rows are wanted; None: all.

    Attributes:
        reason: the word of the reason, such as ``agent_paused``.
        since_ms, until_ms: made then; the second is not included.
        before: only rows with a lower id.
    """

    agent: str | None = None
    of: Of = Of()
    reason: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    before: int = 2**63 - 1


_WHERE = """
       AND (:agent IS NULL OR agent = :agent) AND (:channel IS NULL OR channel = :channel)
       AND (:platform_id IS NULL OR platform_id = :platform_id) AND (:sender_id IS NULL OR sender_id = :sender_id)
       AND (:since IS NULL OR created_at >= :since) AND (:until IS NULL OR created_at < :until) AND id < :before
"""
# What is open or dead is read by its partial index; what is done, among the newest rows.
_OPEN = f"""
    SELECT id
      FROM messages INDEXED BY messages_open
     WHERE trigger = 1 AND (status = 'pending' OR status = 'processing') {_WHERE}
"""
_LAST = " ORDER BY id DESC LIMIT :limit"
_IDS = {
    "waiting": f"{_OPEN} AND status = 'pending' {_LAST}",
    "running": f"{_OPEN} AND status = 'processing' {_LAST}",
    "dead": "SELECT id FROM messages WHERE status = 'dead'" + _WHERE + _LAST,
    "done": f"""
    SELECT id
      FROM messages
     WHERE id > (SELECT max(id) FROM messages) - {SEARCHED} AND (status = 'completed' OR status = 'cancelled')
       AND trigger = 1 {_WHERE} {_LAST}
""",
}
_MORE = "SELECT updated_at, substr(message, 1, :shown) FROM messages WHERE id = :row"


def messages(conn: apsw.Connection, state: State, wanted: Filter, *, limit: int, now_ms: int) -> list[WorkRow]:
    """The newest messages in this state, newest first.

    Where a reason is asked for, it is looked for among the newest 500 of the others.
    """
    looked_at = limit if wanted.reason is None else max(limit, _LOOKED_AT)
    values = {
        "agent": wanted.agent,
        "channel": wanted.of.channel,
        "platform_id": wanted.of.platform_id,
        "sender_id": wanted.of.sender_id,
        "since": wanted.since_ms,
        "until": wanted.until_ms,
        "before": wanted.before,
        "limit": looked_at,
    }
    busy_agents: dict[str, int] = {}
    found = (
        one(conn, id_, now_ms=now_ms, only=wanted.reason, busy_agents=busy_agents)
        for (id_,) in rows(conn, _IDS[state], values)
    )
    chosen = (row for row in found if row is not None)
    return [row for _, row in zip(range(limit), chosen, strict=False)]


def one(
    conn: apsw.Connection,
    row_id: int,
    *,
    now_ms: int,
    only: str | None = None,
    busy_agents: dict[str, int] | None = None,
) -> WorkRow | None:
    """One message; None if it is pruned, or for another reason than *only*. *busy_agents*: see ``why.message``."""
    facts = why.message(conn, row_id, now_ms=now_ms, busy_agents=busy_agents)
    if facts is None:
        return None
    reason = why_sentences.of_message(facts, now_ms=now_ms)
    if only not in (None, reason.state):
        return None
    ((updated_at, text),) = rows(conn, _MORE, {"row": row_id, "shown": _SHOWN})
    costs = [each["cost"] for each in spending.of_message(conn, row_id) if each["cost"] is not None]
    return {
        "row": row_id,
        "id": facts.message_id,
        "createdAt": facts.created_at,
        "updatedAt": updated_at,
        "channel": facts.place.channel,
        "platformId": facts.place.platform_id,
        "chatName": facts.place.chat_name,
        "senderId": facts.place.sender_id,
        "sender": facts.place.sender,
        "agent": facts.agent,
        "text": text,
        "attempts": facts.retry_count,
        **reason.as_fields(),
        "cost": sum(costs) if costs else None,
        "series": facts.series_id,
    }


class AnswerRow(Reason):
    """An answer that is not delivered: *state*, *reason*, *until* as in ``GET /api/why``."""

    id: int
    messageId: str
    createdAt: int
    channel: str
    chatId: int | None
    chatName: str | None
    sender: str
    agent: str | None
    text: str
    attempts: int


# What is open or dead stands in a partial index: by the row's number, all that was ever sent would be looked at.
_ANSWER_IDS = {
    "waiting": """
    SELECT id
      FROM responses INDEXED BY responses_open
     WHERE (status = 'pending' OR status = 'delivering') AND id < :before
     ORDER BY id DESC
     LIMIT :limit
""",
    "dead": """
    SELECT id
      FROM responses INDEXED BY responses_dead
     WHERE status = 'dead' AND coalesce(failure, '') NOT IN ('not_fetched', 'called_off') AND id < :before
     ORDER BY id DESC
     LIMIT :limit
""",
}
_ANSWER_ROWS = """
    SELECT r.id, r.message_id, r.created_at, r.channel, r.chat_id, c.name, r.sender, r.agent,
           substr(r.message, 1, :shown), r.retry_count
      FROM responses r
      LEFT JOIN chats c ON c.id = r.chat_id
     WHERE r.id IN (SELECT value FROM json_each(:ids))
     ORDER BY r.id DESC
"""


def answers(
    conn: apsw.Connection, state: Literal["waiting", "dead"], *, before: int, limit: int, now_ms: int
) -> list[AnswerRow]:
    """The newest answers that wait, or that could not be sent, newest first."""
    ids = [id_ for (id_,) in rows(conn, _ANSWER_IDS[state], {"before": before, "limit": limit})]
    found = rows(conn, _ANSWER_ROWS, {"ids": json.dumps(ids), "shown": _SHOWN})
    listed: list[AnswerRow] = []
    for id_, message_id, created_at, channel, chat_id, chat_name, sender, agent, text, attempts in found:
        facts = why.response(conn, id_, now_ms=now_ms)
        if facts is None:
            continue
        reason = why_sentences.of_response(facts, channel, now_ms)
        listed.append(
            {
                "id": id_,
                "messageId": message_id,
                "createdAt": created_at,
                "channel": channel,
                "chatId": chat_id,
                "chatName": chat_name,
                "sender": sender,
                "agent": agent,
                "text": text,
                "attempts": attempts,
                **reason.as_fields(),
            }
        )
    return listed
