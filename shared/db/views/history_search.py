"""Search in what one agent said and heard, as far as a conversation may see it.

A session sees the lines of its own conversation: the same chat, thread and person. One without strangers may also see
groups of the agent in which no stranger wrote; what was said in a direct chat, or to one person, stays there. What a
session with strangers holds is never seen from one without them, nor the other way round.
"""

import json
from pathlib import Path
from typing import NamedTuple

import apsw

from shared.core.errors import ConfigInvalid
from shared.db.engine.connection import rows
from shared.db.queue.sessions import Session
from shared.db.views import history_index

SHORTEST_BEGINNING = 4  # letters before a star
_MOST_SESSIONS = 1000
_MOST_NEW = 2000  # lines that the index may not have yet
_FOR_EVER_MS = 2**62


class HistoryQuestion(NamedTuple):
    """What is searched for.

    Attributes:
        words: each must be in the line; ``invoic*``: the beginning of a word. Empty: by time alone.
        since_ms, until_ms: from this instant, and before that one; None: always.
        before: only lines with a lower id.
    """

    words: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    before: int | None = None
    limit: int = 20


class FoundLine(NamedTuple):
    """A line of the history."""

    id: int
    sender: str
    text: str
    at_ms: int
    chat: str | None


VISIBLE = """
    SELECT s.id
      FROM sessions s
      LEFT JOIN chats c ON c.id = s.chat_id
     WHERE s.agent = :agent AND (s.strangers_at IS NOT NULL) = :apart
       AND ((ifnull(s.chat_id, 0) = ifnull(:chat, 0) AND ifnull(s.thread_id, '') = ifnull(:thread, '')
             AND ifnull(s.private_to, '') = ifnull(:private_to, ''))
            OR (:sees_groups AND c.is_group = 1 AND s.private_to IS NULL))
     ORDER BY s.id DESC
     LIMIT :limit
"""
NEW_LINES = """
    SELECT id, ifnull(session_id, (SELECT m.session_id FROM messages m WHERE m.message_id = a.message_id)),
           content, created_at
      FROM agent_messages a
     WHERE agent_id = :agent AND id > :after AND id < :before
     ORDER BY id DESC
     LIMIT :limit
"""
_LINES = """
    SELECT a.id, a.sender, a.content, a.created_at, c.name
      FROM agent_messages a
      LEFT JOIN sessions s ON s.id = a.session_id
      LEFT JOIN chats c ON c.id = s.chat_id
     WHERE a.agent_id = :agent AND a.id IN (SELECT value FROM json_each(:ids))
     ORDER BY a.id DESC
"""


def sessions_seen(conn: apsw.Connection, session: Session, *, sees_groups: bool) -> list[int]:
    """The rows of the sessions whose lines *session* may see, newest first."""
    apart = session.strangers_at is not None
    key = {
        "agent": session.agent,
        "chat": session.chat_id,
        "thread": session.thread_id,
        "private_to": session.private_to,
        "apart": int(apart),
        "sees_groups": int(sees_groups and not apart),
        "limit": _MOST_SESSIONS,
    }
    return [id_ for (id_,) in rows(conn, VISIBLE, key)]


def search(
    conn: apsw.Connection, database: Path, session: Session, asked: HistoryQuestion, *, sees_groups: bool
) -> list[FoundLine]:
    """The newest lines that match, newest first, as far as *session* may see them.

    Args:
        sees_groups: whether the agent's row lets its conversations with known people read what is shared.

    Raises:
        ConfigInvalid: a word is too short for its star.
    """
    seen = sessions_seen(conn, session, sees_groups=sees_groups)
    words = _words(asked.words)
    index = history_index.opened(database) if seen else None
    try:
        indexed_to = history_index.last(index) if index is not None else 0
        ids = _among_new(conn, session.agent, set(seen), words, asked, after=indexed_to)
        if index is not None and len(ids) < asked.limit:
            ids += history_index.matching(
                index,
                words,
                seen,
                since_ms=asked.since_ms or 0,
                until_ms=_FOR_EVER_MS if asked.until_ms is None else asked.until_ms,
                before=min(asked.before or indexed_to + 1, indexed_to + 1),
                limit=asked.limit - len(ids),
            )
    finally:
        if index is not None:
            index.close()
    found = rows(conn, _LINES, {"agent": session.agent, "ids": json.dumps(ids)})
    return [FoundLine(*each) for each in found]


def _words(text: str) -> list[str]:
    """The words that are searched for; of ``invoic*`` the star stays.

    Raises:
        ConfigInvalid: so few letters stand before a star that it would match too much.
    """
    made: list[str] = []
    for part in text.split():
        parts = history_index.tokens(part)
        if parts and part.endswith("*"):
            if len(parts[-1]) < SHORTEST_BEGINNING:
                raise ConfigInvalid(
                    f"{part!r} begins too many words: write at least {SHORTEST_BEGINNING} letters of it"
                )
            parts[-1] += "*"
        made += parts
    return made


def _among_new(
    conn: apsw.Connection, agent: str, seen: set[int], words: list[str], asked: HistoryQuestion, *, after: int
) -> list[int]:
    """The lines that the index has not yet."""
    key = {"agent": agent, "after": after, "before": asked.before or _FOR_EVER_MS, "limit": _MOST_NEW}
    until_ms = _FOR_EVER_MS if asked.until_ms is None else asked.until_ms
    found = [
        id_
        for id_, session, text, at_ms in rows(conn, NEW_LINES, key)
        if session in seen and (asked.since_ms or 0) <= at_ms < until_ms and _has(text, words)
    ]
    return found[: asked.limit]


def _has(text: str, words: list[str]) -> bool:
    there = set(history_index.tokens(text))
    return all(
        any(each.startswith(word[:-1]) for each in there) if word.endswith("*") else word in there for word in words
    )
