"""What the API shows of the histories, the rooms, the events and the dropped messages."""

from typing import Any, Literal

import apsw
from typing_extensions import TypedDict

from shared.core import content
from shared.db.engine.columns import listed
from shared.db.engine.connection import rows
from shared.db.engine.named_rows import NEWEST, named
from shared.db.views import why_sentences


class HistoryLine(TypedDict):
    """One line of an agent's history."""

    id: int
    agent_id: str
    role: Literal["user", "assistant"]
    channel: str
    sender: str
    message_id: str
    content: str
    created_at: int


_LINE = listed(HistoryLine.__annotations__)

HISTORY = f"""
    SELECT {_LINE}
      FROM agent_messages
     WHERE agent_id = :agent AND (:channel IS NULL OR channel = :channel)
     ORDER BY id DESC
     LIMIT :limit
"""

HISTORY_AFTER = f"""
    SELECT {_LINE}
      FROM agent_messages
     WHERE agent_id = :agent AND id > :after AND (:channel IS NULL OR channel = :channel)
     ORDER BY id
     LIMIT :limit
"""

HISTORY_OF_ALL = f"""
    SELECT {_LINE}
      FROM agent_messages
     ORDER BY id DESC
     LIMIT :limit
"""

HISTORY_OF_ALL_AFTER = f"""
    SELECT {_LINE}
      FROM agent_messages
     WHERE id > :after
     ORDER BY id
     LIMIT :limit
"""


def history(
    conn: apsw.Connection, *, agent: str | None = None, channel: str | None = None, after: int = 0, limit: int
) -> list[HistoryLine]:
    """The newest lines of one agent's history, or of all, newest first; with *after*, the later lines, oldest first.

    *channel*: only the agent's lines on that channel.
    """
    choice = {(False, False): HISTORY_OF_ALL, (False, True): HISTORY_OF_ALL_AFTER, (True, False): HISTORY}
    sql = choice.get((agent is not None, after > 0), HISTORY_AFTER)
    values = {"agent": agent, "channel": channel, "after": after, "limit": limit}
    return named(HistoryLine, rows(conn, sql, {name: value for name, value in values.items() if f":{name}" in sql}))


_TEXTS = """
    SELECT id, iif(:channel IS NULL OR channel = :channel, content, NULL)
      FROM agent_messages
     WHERE {of} id < :before
     ORDER BY id DESC
     LIMIT :limit
"""
TEXTS = _TEXTS.format(of="agent_id = :agent AND")
TEXTS_OF_ALL = _TEXTS.format(of="")


def texts_before(
    conn: apsw.Connection, *, agent: str | None, channel: str | None, before: int, limit: int
) -> list[tuple[int, str | None]]:
    """Id and text of the lines of one agent's history, or of all, that come before the line *before*, newest first.

    *channel*: lines on another have no text here.
    """
    values = {"channel": channel, "before": before, "limit": limit} | ({} if agent is None else {"agent": agent})
    return rows(conn, TEXTS_OF_ALL if agent is None else TEXTS, values)


def line(conn: apsw.Connection, line_id: int) -> HistoryLine:
    """One line, which is there."""
    (found,) = named(HistoryLine, rows(conn, f"SELECT {_LINE} FROM agent_messages WHERE id = ?", (line_id,)))
    return found


# -- rooms


class RoomLine(TypedDict):
    """A line of a team's room; ``from_agent`` is ``user`` if a person wrote it."""

    id: int
    team_id: str
    from_agent: str
    message: str
    created_at: int


_ROOM_LINE = listed(RoomLine.__annotations__)

ROOM = f"""
    SELECT {_ROOM_LINE}
      FROM chat_messages
     WHERE team_id = :team
     ORDER BY id DESC
     LIMIT :limit
"""

ROOM_AFTER = f"""
    SELECT {_ROOM_LINE}
      FROM chat_messages
     WHERE team_id = :team AND id > :after
     ORDER BY id
     LIMIT :limit
"""


def room(conn: apsw.Connection, team: str, *, after: int = 0, limit: int) -> list[RoomLine]:
    """The newest lines of a team's room, newest first; with *after*, the lines after that line, oldest first."""
    if after:
        found = rows(conn, ROOM_AFTER, {"team": team, "after": after, "limit": limit})
    else:
        found = rows(conn, ROOM, {"team": team, "limit": limit})
    return named(RoomLine, found)


# -- events and dropped messages


class EventView(TypedDict):
    """A change of state."""

    id: int
    type: str
    messageId: str | None
    responseId: int | None
    agent: str | None
    channel: str | None
    data: dict[str, Any]
    createdAt: int


EVENTS = """
    SELECT id, type, message_id, response_id, agent, channel, data, created_at
      FROM events
     WHERE id < :before
     ORDER BY id DESC
     LIMIT :limit
"""


def events(conn: apsw.Connection, *, before: int, limit: int) -> list[EventView]:
    """The events, newest first."""
    return named(EventView, rows(conn, EVENTS, {"before": before, "limit": limit}), data=content.readable)


class DroppedView(TypedDict):
    """A message that was dropped, and why; never its text. *messageId*: the platform's id of the message.

    *code* and *detail*: the words of the row, for programs; *reason*: a sentence.
    Names are for people: *sender* as the platform sent it, *chatName* where the chat is known.
    """

    id: int
    channel: str
    platformId: str | None
    senderId: str | None
    code: str
    detail: str
    createdAt: int
    sender: str
    chatName: str | None
    messageId: str | None
    reason: str


_DROPPED_COLUMNS = """
    SELECT d.id, d.channel, d.platform_id, d.sender_id, d.reason, d.detail, d.created_at,
           coalesce(nullif(d.sender, ''),
                    (SELECT name FROM users WHERE channel = d.channel AND sender_id = d.sender_id), ''),
           (SELECT name FROM chats WHERE channel = d.channel AND platform_id = d.platform_id), d.platform_message_id
      FROM dropped d
"""
_OF = """
       AND (:channel IS NULL OR d.channel = :channel) AND (:sender_id IS NULL OR d.sender_id = :sender_id)
       AND (:platform_id IS NULL OR d.platform_id = :platform_id)
"""
DROPPED = f"""
{_DROPPED_COLUMNS}
     WHERE d.id < :before {_OF}
     ORDER BY d.id DESC
     LIMIT :limit
"""

DROPPED_AFTER = f"""
{_DROPPED_COLUMNS}
     WHERE d.id > :after {_OF}
     ORDER BY d.id
     LIMIT :limit
"""

DROPPED_BECAUSE = f"""
{_DROPPED_COLUMNS}
     WHERE d.reason = :reason AND d.id < :before {_OF}
     ORDER BY d.id DESC
     LIMIT :limit
"""

DROPPED_BECAUSE_AFTER = f"""
{_DROPPED_COLUMNS}
     WHERE d.reason = :reason AND d.id > :after {_OF}
     ORDER BY d.id
     LIMIT :limit
"""


def dropped(
    conn: apsw.Connection,
    *,
    reason: str | None = None,
    channel: str | None = None,
    sender_id: str | None = None,
    platform_id: str | None = None,
    before: int = NEWEST,
    after: int = 0,
    limit: int,
) -> list[DroppedView]:
    """The dropped messages: those before a row, newest first, or those after a row, oldest first.

    *sender_id* and *platform_id*: only of this sender, and in this chat, by the platform's ids.
    """
    choice = {
        (False, False): DROPPED,
        (False, True): DROPPED_AFTER,
        (True, False): DROPPED_BECAUSE,
        (True, True): DROPPED_BECAUSE_AFTER,
    }
    sql = choice[reason is not None, after > 0]
    of = {"channel": channel, "sender_id": sender_id, "platform_id": platform_id}
    values = {**of, "reason": reason, "before": before, "after": after, "limit": limit}
    found = rows(conn, sql, {name: value for name, value in values.items() if f":{name}" in sql})
    return named(DroppedView, [(*row, why_sentences.of_drop(*row[4:6])) for row in found])
