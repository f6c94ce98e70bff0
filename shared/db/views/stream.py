"""What the event stream shows of the rows that events name. One query looks up the rows of a whole batch."""

import json
from collections.abc import Collection

import apsw
from typing_extensions import TypedDict

from shared.db.engine.connection import rows
from shared.db.engine.named_rows import named


class StreamedAgent(TypedDict):
    """An agent and its engine."""

    agentName: str
    provider: str
    model: str


def agents(conn: apsw.Connection) -> dict[str, StreamedAgent]:
    """Every agent, by id."""
    found = rows(conn, "SELECT id, name, provider, ifnull(model, '') FROM agents")
    return dict(zip((id_ for id_, *_ in found), named(StreamedAgent, [row[1:] for row in found]), strict=True))


class StreamedMessage(TypedDict):
    """A message: its row, its sender, and the beginning of its text."""

    row: int
    sender: str
    message: str
    fromAgent: str | None


MESSAGES = """
    SELECT message_id, id, sender, substr(message, 1, :characters), from_agent
      FROM messages
     WHERE message_id IN (SELECT value FROM json_each(:ids))
"""


def messages(conn: apsw.Connection, message_ids: Collection[str], *, characters: int) -> dict[str, StreamedMessage]:
    """The messages that are not pruned yet, by id; *characters* of each text at most."""
    found = rows(conn, MESSAGES, {"ids": json.dumps(list(message_ids)), "characters": characters})
    return dict(zip((id_ for id_, *_ in found), named(StreamedMessage, [row[1:] for row in found]), strict=True))


def lines(conn: apsw.Connection, line_ids: Collection[int], *, characters: int) -> dict[int, str]:
    """The beginning of lines in the teams' rooms, by row; *characters* of each at most."""
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


class StreamedResponse(TypedDict):
    """A response: its recipient, the beginning of its text, and the length of the whole text."""

    sender: str
    message: str
    length: int
    isAnswer: int


def responses(conn: apsw.Connection, response_ids: Collection[int], *, characters: int) -> dict[int, StreamedResponse]:
    """The responses that are not pruned yet, by row; *characters* of each text at most."""
    found = rows(
        conn,
        """
        SELECT id, sender, substr(message, 1, :characters), length(message), in_reply_to IS NOT NULL
          FROM responses
         WHERE id IN (SELECT value FROM json_each(:ids))
        """,
        {"ids": json.dumps(list(response_ids)), "characters": characters},
    )
    return dict(zip((id_ for id_, *_ in found), named(StreamedResponse, [row[1:] for row in found]), strict=True))


def answers(
    conn: apsw.Connection, message_rows: Collection[int], *, from_ms: int, until_ms: int, characters: int
) -> list[tuple[str, int]]:
    """The responses to these messages from the instants of one turn, in order: (beginning, length of the whole)."""
    found = rows(
        conn,
        """
        SELECT substr(message, 1, :characters), length(message)
          FROM responses
         WHERE in_reply_to IN (SELECT value FROM json_each(:rows)) AND created_at BETWEEN :from AND :until
         ORDER BY id
        """,
        {"rows": json.dumps(list(message_rows)), "from": from_ms, "until": until_ms, "characters": characters},
    )
    return [(text, length) for text, length in found]
