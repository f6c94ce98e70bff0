"""What agents remember by their tool, line by line. Each line knows its turn, and for whom it is.

::

    a session in which a stranger wrote     reads and writes lines of its own conversation, with strangers
    any other session                       reads and writes lines of its own conversation, without strangers,
                                            and those that are shared by all sessions without strangers

A *conversation* is a session and those before and after it, with the same chat, thread and person.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple

import apsw

from shared.core import ids
from shared.core.accounts import platform_of
from shared.db.engine.connection import rows, scalar
from shared.db.queue.sessions import Session

LONGEST = 1000  # characters of a line
MOST_SHARED = 6000  # characters of all shared lines of an agent: each is in every prompt
MOST_OWN = 3000  # characters of the lines of one conversation


class LineAuthor(NamedTuple):
    """A person whose message stood in the turn that wrote a line."""

    channel: str
    sender_id: str | None
    sender: str


class NewLine(NamedTuple):
    """A line that a turn writes. *turn*, *message_id*: None where an operator calls the tool."""

    text: str
    is_shared: bool
    turn: str | None
    message_id: str | None
    people: tuple[LineAuthor, ...]


class MemoryRow(NamedTuple):
    """A row of ``memory_lines``."""

    line_id: str
    agent: str
    text: str
    with_strangers: bool
    is_shared: bool
    session_id: int
    turn: str | None
    message_id: str | None
    people: tuple[LineAuthor, ...]
    created_at: int

    @property
    def by(self) -> str:
        """The names of the people, for people."""
        return ", ".join(dict.fromkeys(each.sender for each in self.people)) or "operator"


_SELECT = """
    SELECT line_id, agent, text, with_strangers, is_shared, session_id, turn, message_id, people, created_at
      FROM memory_lines
"""
_IS_OWN = """
    agent = :agent AND is_shared = 0 AND ifnull(chat_id, 0) = ifnull(:chat, 0)
    AND ifnull(thread_id, '') = ifnull(:thread, '')
    AND ifnull(private_to, '') = ifnull(:private_to, '') AND with_strangers = :apart
"""
_SHARED_CHARACTERS = """
    SELECT ifnull(sum(length(text)), 0)
      FROM memory_lines
     WHERE agent = :agent AND is_shared = 1
"""
_OWN_CHARACTERS = _SHARED_CHARACTERS.replace("agent = :agent AND is_shared = 1", _IS_OWN)
VISIBLE = f"""
{_SELECT}
     WHERE id IN (SELECT id FROM memory_lines WHERE agent = :agent AND is_shared = 1 AND :apart = 0
                   UNION ALL
                  SELECT id FROM memory_lines WHERE {_IS_OWN})
     ORDER BY id
"""


def visible(conn: apsw.Connection, session: Session) -> list[MemoryRow]:
    """The lines that turns of the session read, oldest first."""
    return _read(rows(conn, VISIBLE, _key(session)))


def of_agent(conn: apsw.Connection, agent: str) -> list[MemoryRow]:
    """All lines of the agent, oldest first; for its operator."""
    return _read(rows(conn, f"{_SELECT} WHERE agent = :agent ORDER BY id", {"agent": agent}))


def add(conn: apsw.Connection, session: Session, new: NewLine, *, now_ms: int) -> str | None:
    """Add the line that a turn of the session writes; its id. None: this memory has no room for it."""
    with_strangers = session.strangers_at is not None
    is_shared = new.is_shared and not with_strangers
    if _characters(conn, session, is_shared=is_shared) + len(new.text) > (MOST_SHARED if is_shared else MOST_OWN):
        return None
    values = {
        **_key(session),
        "text": new.text,
        "is_shared": is_shared,
        "session": session.id,
        "turn": new.turn,
        "message_id": new.message_id,
        "people": json.dumps(new.people),
        "now": now_ms,
    }
    for _ in range(ids.DRAWS):
        drawn = ids.new("memory")
        conn.execute(
            """
            INSERT INTO memory_lines (line_id, agent, text, with_strangers, is_shared, session_id, chat_id, thread_id,
                                      private_to, turn, message_id, people, created_at)
            VALUES (:line_id, :agent, :text, :apart, :is_shared, :session, :chat, :thread, :private_to, :turn,
                    :message_id, :people, :now)
            ON CONFLICT (line_id) DO NOTHING
            """,
            {**values, "line_id": drawn},
        )
        if conn.changes():
            return drawn
    raise AssertionError("no id is free")


def _characters(conn: apsw.Connection, session: Session, *, is_shared: bool) -> int:
    found: int = scalar(conn, _SHARED_CHARACTERS if is_shared else _OWN_CHARACTERS, _key(session))
    return found


def delete(conn: apsw.Connection, agent: str, line_ids: Iterable[str]) -> int:
    """Delete these lines of the agent; how many there were."""
    before = conn.total_changes()
    conn.executemany(
        "DELETE FROM memory_lines WHERE agent = :agent AND line_id = :line",
        [{"agent": agent, "line": each} for each in line_ids],
    )
    return conn.total_changes() - before


OF_PERSON = """
    EXISTS (SELECT 1
              FROM json_each(people)
             WHERE value ->> 1 = :sender_id
               AND (value ->> 0 = :platform OR value ->> 0 GLOB :platform || '.*'))
"""


def delete_of_person(conn: apsw.Connection, channel: str, sender_id: str, *, agent: str | None = None) -> int:
    """Delete every line of the agent, or of all agents, that a turn with a message of this person wrote; how many."""
    conn.execute(
        f"DELETE FROM memory_lines WHERE (:agent IS NULL OR agent = :agent) AND {OF_PERSON}",
        {"agent": agent, "sender_id": sender_id, "platform": platform_of(channel)},
    )
    return conn.changes()


def _key(session: Session) -> dict[str, object]:
    return {
        "agent": session.agent,
        "chat": session.chat_id,
        "thread": session.thread_id,
        "private_to": session.private_to,
        "apart": int(session.strangers_at is not None),
    }


def _read(found: Iterable[tuple[object, ...]]) -> list[MemoryRow]:
    return [_row(MemoryRow._make(each)) for each in found]


def _row(found: MemoryRow) -> MemoryRow:
    people = tuple(LineAuthor(*each) for each in json.loads(found.people))  # type: ignore[arg-type]
    return found._replace(with_strangers=bool(found.with_strangers), is_shared=bool(found.is_shared), people=people)
