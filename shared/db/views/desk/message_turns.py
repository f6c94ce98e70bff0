"""The turns over one message: when each began, and what it did with its tools. The message's own rows do not tell this.

The begin of a turn stands in the events alone, which have no index of it: so they are read from the end of the message
backwards, and at most ``LOOKED_AT`` of them.
"""

import json

import apsw
from typing_extensions import TypedDict

from shared.core import content
from shared.db.engine.connection import rows, scalar
from shared.db.views import books, spending

LOOKED_AT = 50_000  # events; 20 ms
_MOST = 200


class BegunTurn(TypedDict):
    """A turn that began over the message. *attempt*: from 1 on; *messages*: how many it had. *at*: ms UTC."""

    at: int
    attempt: int
    messages: int


class ToolUse(TypedDict):
    """A call that did something. *at*: ms UTC."""

    at: int
    tool: str


class MessageTurns(TypedDict):
    """Both oldest first. *calls*: of turns that asked a model."""

    begun: list[BegunTurn]
    calls: list[ToolUse]


MESSAGE = "SELECT message_id, session_id, created_at, status, updated_at FROM messages WHERE id = :row"
BEGUN = """
    SELECT created_at, data
      FROM events
     WHERE id >= :first AND id <= :last AND type = 'chain_step_start'
       AND (message_id = :id OR session_id = :session)
       AND EXISTS (SELECT 1 FROM json_each(data, '$.batch') WHERE value = :id)
     ORDER BY id DESC
     LIMIT :limit
"""
BEFORE = "SELECT id FROM events WHERE id <= :last ORDER BY id DESC LIMIT 1 OFFSET :looked_at"
CALLS = """
    SELECT created_at, tool
      FROM tool_calls
     WHERE turn IN (SELECT value FROM json_each(:turns))
     ORDER BY created_at, key
     LIMIT :limit
"""


def read(conn: apsw.Connection, row_id: int) -> MessageTurns:
    """The turns over the message in this row; none where it is pruned."""
    found = rows(conn, MESSAGE, {"row": row_id})
    if not found:
        return {"begun": [], "calls": []}
    ((id_, session, created_at, status, updated_at),) = found
    if status in ("completed", "dead", "cancelled"):
        last = books.first_since(conn, "events", updated_at + 1) - 1
    else:
        last = scalar(conn, "SELECT ifnull(max(id), 0) FROM events")
    before = scalar(conn, BEFORE, {"last": last, "looked_at": LOOKED_AT}) or 0
    first = max(books.first_since(conn, "events", created_at), before + 1)
    begun = rows(conn, BEGUN, {"first": first, "last": last, "id": id_, "session": session, "limit": _MOST})
    turns = list(dict.fromkeys(each["turn"] for each in spending.of_message(conn, row_id)))
    return {
        "begun": [_begun(at_ms, data) for at_ms, data in reversed(begun)],
        "calls": [
            {"at": at_ms, "tool": tool}
            for at_ms, tool in rows(conn, CALLS, {"turns": json.dumps(turns), "limit": _MOST})
        ],
    }


def _begun(at_ms: int, data: str) -> BegunTurn:
    said = content.readable(data)
    return {"at": at_ms, "attempt": said.get("attempt", 1), "messages": len(said.get("batch", ()))}
