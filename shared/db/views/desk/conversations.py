"""The conversations by their last activity, and people and chats by name.

An index of the last activity would cost every message time. So the newest rows of all chats are read; chats without one
of these come after, the newest chat first.
"""

import json
from collections.abc import Iterable
from typing import Any

import apsw
from typing_extensions import TypedDict

from shared.db.engine.connection import rows, savepoint

LOOKED_AT = 5_000  # messages, and again answers
_SHOWN = 120  # characters of a text


class TalkPlace(TypedDict):
    """A chat; *lastAt*, *lastText*, *lastBy*: its last text, null if that is long ago. *open*: how many of its newest

    messages wait or run. *dead*: how many of them are dead.
    """

    id: int
    channel: str
    platformId: str
    name: str | None
    isGroup: bool
    lastAt: int | None
    lastText: str | None
    lastBy: str | None
    open: int
    dead: int


class FoundPerson(TypedDict):
    """A known person. *chatId*: the direct chat, if there is one."""

    channel: str
    senderId: str
    name: str
    chatId: int | None


class Found(TypedDict):
    """The chats and people with the words in the name, or as the id."""

    chats: list[TalkPlace]
    people: list[FoundPerson]


_CHAT = "SELECT id, channel, platform_id, name, is_group FROM chats"
_SAID = """
    SELECT c.id, m.last, m.open, m.dead
      FROM (SELECT channel, platform_id, max(id) AS last,
                   count(*) FILTER (WHERE trigger = 1 AND (status = 'pending' OR status = 'processing')) AS open,
                   count(*) FILTER (WHERE status = 'dead') AS dead
              FROM messages
             WHERE id > (SELECT max(id) FROM messages) - :looked AND from_agent IS NULL AND platform_id IS NOT NULL
               AND NOT (status = 'pending' AND ifnull(process_after, 0) > :now AND failure IS NULL)
             GROUP BY channel, platform_id) m
      JOIN chats c ON c.channel = m.channel AND c.platform_id = m.platform_id
"""
_SENT = """
    SELECT chat_id, max(id)
      FROM responses
     WHERE id > ifnull((SELECT id FROM responses ORDER BY id DESC LIMIT 1 OFFSET :looked), 0)
       AND chat_id IS NOT NULL AND status <> 'deleted'
     GROUP BY chat_id
"""
_MESSAGES = """
    SELECT id, created_at, substr(message, 1, :shown), sender
      FROM messages
     WHERE id IN (SELECT value FROM json_each(:ids))
"""
_RESPONSES = """
    SELECT id, created_at, substr(message, 1, :shown), ifnull(agent, 'Postroom')
      FROM responses
     WHERE id IN (SELECT value FROM json_each(:ids))
"""


def latest(conn: apsw.Connection, *, limit: int, now_ms: int) -> list[TalkPlace]:
    """The conversations by their last text, then the others, the newest chat first."""
    with savepoint(conn):
        last, counts = _last_lines(conn, now_ms)
        active = sorted(last, key=lambda chat: -last[chat][0])[:limit]
        of_active = f"{_CHAT} WHERE id IN (SELECT value FROM json_each(:ids))"  # noqa: S608
        found = {row[0]: row for row in rows(conn, of_active, {"ids": json.dumps(active)})}
        chosen = [found[chat] for chat in active if chat in found]
        if len(chosen) < limit:
            others = rows(conn, f"{_CHAT} ORDER BY id DESC LIMIT :limit", {"limit": limit + len(chosen)})
            chosen += [row for row in others if row[0] not in last][: limit - len(chosen)]
    return _places(chosen, last, counts)


def _last_lines(
    conn: apsw.Connection, now_ms: int
) -> tuple[dict[int, tuple[int, str, str]], dict[int, tuple[int, int]]]:
    """By chat: what was said last (when, what, by whom), and how many messages are open and dead.

    Messages that are planned for later do not count.
    """
    said = rows(conn, _SAID, {"looked": LOOKED_AT, "now": now_ms})
    asked = {id_: chat for chat, id_, *_ in said}
    sent = {id_: chat for chat, id_ in rows(conn, _SENT, {"looked": LOOKED_AT})}
    last: dict[int, tuple[int, str, str]] = {}
    for sql, of in ((_MESSAGES, asked), (_RESPONSES, sent)):
        for id_, at_ms, text, by in rows(conn, sql, {"ids": json.dumps(list(of)), "shown": _SHOWN}):
            if at_ms >= last.get(of[id_], (0,))[0]:
                last[of[id_]] = (at_ms, text, by)
    return last, {chat: (is_open, dead) for chat, _, is_open, dead in said}


def _places(
    found: Iterable[tuple[Any, ...]],
    last: dict[int, tuple[int, str, str]],
    counts: dict[int, tuple[int, int]],
) -> list[TalkPlace]:
    return [
        {
            "id": id_,
            "channel": channel,
            "platformId": platform_id,
            "name": name,
            "isGroup": bool(is_group),
            "lastAt": last[id_][0] if id_ in last else None,
            "lastText": last[id_][1] if id_ in last else None,
            "lastBy": last[id_][2] if id_ in last else None,
            "open": counts.get(id_, (0, 0))[0],
            "dead": counts.get(id_, (0, 0))[1],
        }
        for id_, channel, platform_id, name, is_group in found
    ]


_NAMED = f"{_CHAT} WHERE name LIKE :like ESCAPE '!' OR platform_id = :words ORDER BY id DESC LIMIT :limit"
_PEOPLE = """
    SELECT u.channel, u.sender_id, u.name, (SELECT c.id
                                              FROM chats c
                                             WHERE c.channel = u.channel AND c.platform_id = u.sender_id
                                               AND c.is_group = 0)
      FROM users u
     WHERE u.name LIKE :like ESCAPE '!' OR u.sender_id = :words
     ORDER BY u.id DESC
     LIMIT :limit
"""


def find(conn: apsw.Connection, words: str, *, limit: int) -> Found:
    """The chats and people with *words* in the name, in any case of ASCII, or as the platform's id; newest first."""
    values = {"words": words, "like": f"%{like(words)}%", "limit": limit}
    people = rows(conn, _PEOPLE, values)
    return {
        "chats": _places(rows(conn, _NAMED, values), {}, {}),
        "people": [
            {"channel": channel, "senderId": sender_id, "name": name, "chatId": chat}
            for channel, sender_id, name, chat in people
        ],
    }


def like(words: str) -> str:
    """The words as a part of a pattern of ``LIKE … ESCAPE '!'``."""
    return words.replace("!", "!!").replace("%", "!%").replace("_", "!_")
