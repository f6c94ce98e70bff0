"""Messages by what became of them, each with its reason: waiting, running, dead, done. And answers to send."""

import json
from typing import Literal, NamedTuple

import apsw

from shared.db.engine.connection import rows, scalar
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

    def values(self) -> dict[str, str | int | None]:
        """The parameters of the searches."""
        return {
            "agent": self.agent,
            "channel": self.of.channel,
            "platform_id": self.of.platform_id,
            "sender_id": self.of.sender_id,
            "since": self.since_ms,
            "until": self.until_ms,
            "before": self.before,
        }


FILTERED = """
       AND (:agent IS NULL OR agent = :agent) AND (:channel IS NULL OR channel = :channel)
       AND (:platform_id IS NULL OR platform_id = :platform_id) AND (:sender_id IS NULL OR sender_id = :sender_id)
       AND (:since IS NULL OR created_at >= :since) AND (:until IS NULL OR created_at < :until) AND id < :before
"""
# What is open or dead is read by its partial index; what is done, among the newest rows before the wanted time or row.
_OPEN = f"""
    SELECT id
      FROM messages INDEXED BY messages_open
     WHERE trigger = 1 AND (status = 'pending' OR status = 'processing') {FILTERED}
"""
_LAST = " ORDER BY id DESC LIMIT :limit"
_IDS = {
    "waiting": f"{_OPEN} AND status = 'pending' {_LAST}",
    "running": f"{_OPEN} AND status = 'processing' {_LAST}",
    "dead": "SELECT id FROM messages WHERE status = 'dead'" + FILTERED + _LAST,
    "done": f"""
    SELECT id
      FROM messages
     WHERE id > :top - {SEARCHED} AND (status = 'completed' OR status = 'cancelled')
       AND trigger = 1 {FILTERED} {_LAST}
""",
}
_MORE = "SELECT updated_at, substr(message, 1, :shown) FROM messages WHERE id = :row"


MADE_FROM = "SELECT id, created_at FROM messages WHERE id >= :row ORDER BY id LIMIT 1"


def _top(conn: apsw.Connection, wanted: Filter) -> int:
    """Of the rows that may be wanted, the newest: found by halves, since later rows were made later."""
    newest: int = scalar(conn, "SELECT ifnull(max(id), 0) FROM messages")
    low, high = 1, min(newest, wanted.before) + 1
    while wanted.until_ms is not None and low < high:
        middle = (low + high) // 2
        found = rows(conn, MADE_FROM, {"row": middle})
        if not found or found[0][1] >= wanted.until_ms:
            high = middle
        else:
            low = found[0][0] + 1
    return high


def messages(conn: apsw.Connection, state: State, wanted: Filter, *, limit: int, now_ms: int) -> list[WorkRow]:
    """The newest messages in this state, newest first; those that are done, of the ``SEARCHED`` before the wanted time.

    Where a reason is asked for, it is looked for among the newest 500 of the others.
    """
    looked_at = limit if wanted.reason is None else max(limit, _LOOKED_AT)
    values = {**wanted.values(), "limit": looked_at, **({"top": _top(conn, wanted)} if state == "done" else {})}
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
    "waiting": f"""
    SELECT id
      FROM responses INDEXED BY responses_open
     WHERE (status = 'pending' OR status = 'delivering') {FILTERED} {_LAST}
""",
    "dead": f"""
    SELECT id
      FROM responses INDEXED BY responses_unsent
     WHERE status = 'dead' AND coalesce(failure, '') NOT IN ('not_fetched', 'called_off') {FILTERED} {_LAST}
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
    conn: apsw.Connection, state: Literal["waiting", "dead"], wanted: Filter, *, limit: int, now_ms: int
) -> list[AnswerRow]:
    """The newest answers that wait, or that could not be sent, newest first.

    A reason is looked for among the newest 500 of the others.
    """
    looked_at = limit if wanted.reason is None else max(limit, _LOOKED_AT)
    ids = [id_ for (id_,) in rows(conn, _ANSWER_IDS[state], {**wanted.values(), "limit": looked_at})]
    found = rows(conn, _ANSWER_ROWS, {"ids": json.dumps(ids), "shown": _SHOWN})
    listed: list[AnswerRow] = []
    for id_, message_id, created_at, channel, chat_id, chat_name, sender, agent, text, attempts in found:
        facts = why.response(conn, id_, now_ms=now_ms)
        if facts is None:
            continue
        reason = why_sentences.of_response(facts, now_ms=now_ms)
        if wanted.reason not in (None, reason.state):
            continue
        if len(listed) == limit:
            break
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
