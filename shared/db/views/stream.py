"""What the event stream tells of the rows that events speak of; looked up for a whole batch at once."""

import json
from collections.abc import Collection
from typing import Any

import apsw

from shared.core import ids
from shared.db.engine.connection import rows

Told = dict[str, Any]


def agents(conn: apsw.Connection) -> dict[str, Told]:
    """Of every agent, what events tell."""
    found = rows(conn, "SELECT id, name, provider, ifnull(model, '') FROM agents")
    return {id_: {"agentName": name, "provider": provider, "model": model} for id_, name, provider, model in found}


MESSAGES = """
    SELECT message_id, id, sender, substr(message, 1, :characters), from_agent
      FROM messages
     WHERE id IN (SELECT value FROM json_each(:rows))
     UNION ALL
    SELECT message_id, id, sender, substr(message, 1, :characters), from_agent
      FROM messages
     WHERE given_id IN (SELECT value FROM json_each(:ids))
"""


def messages(conn: apsw.Connection, message_ids: Collection[str], *, characters: int) -> dict[str, Told]:
    """Of the messages that are still there: their row, who wrote them, and how they begin."""
    candidates = [row for row in map(ids.row_of, message_ids) if row is not None]
    found = rows(
        conn,
        MESSAGES,
        {"rows": json.dumps(candidates), "ids": json.dumps(list(message_ids)), "characters": characters},
    )
    return {row[0]: dict(zip(("row", "sender", "message", "fromAgent"), row[1:], strict=True)) for row in found}


def lines(conn: apsw.Connection, line_ids: Collection[int], *, characters: int) -> dict[int, str]:
    """Of what was said in the teams' rooms: how it begins."""
    found = rows(
        conn,
        """
        SELECT id, substr(message, 1, :characters)
          FROM chat_messages
         WHERE id IN (SELECT value FROM json_each(:ids))
        """,
        {"ids": json.dumps(list(line_ids)), "characters": characters},
    )
    return dict(found)


def responses(conn: apsw.Connection, response_ids: Collection[int], *, characters: int) -> dict[int, Told]:
    """Of the responses that are still there: to whom, how they begin, and how long they are."""
    found = rows(
        conn,
        """
        SELECT id, sender, substr(message, 1, :characters), length(message), in_reply_to IS NOT NULL
          FROM responses
         WHERE id IN (SELECT value FROM json_each(:ids))
        """,
        {"ids": json.dumps(list(response_ids)), "characters": characters},
    )
    return {row[0]: dict(zip(("sender", "message", "length", "isAnswer"), row[1:], strict=True)) for row in found}


def answers(
    conn: apsw.Connection, message_rows: Collection[int], *, at_ms: int, characters: int
) -> list[tuple[str, int]]:
    """What the turn that settled these messages at *at_ms* said, in order: how each begins, and how long it is."""
    found = rows(
        conn,
        """
        SELECT substr(message, 1, :characters), length(message)
          FROM responses
         WHERE in_reply_to IN (SELECT value FROM json_each(:rows)) AND created_at = :at
         ORDER BY id
        """,
        {"rows": json.dumps(list(message_rows)), "at": at_ms, "characters": characters},
    )
    return [(text, length) for text, length in found]
