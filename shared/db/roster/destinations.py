"""Destinations: the chats and agents to which an agent may send, each with a name. Without a name it can't send.

Each agent has its own names; two agents may call one chat by two names. A chat in which an agent is wired is always one
of its destinations: a trigger inserts the row with the wiring and deletes it with the wiring.
"""

import re
import unicodedata
from typing import NamedTuple

import apsw

from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.db.engine.columns import listed
from shared.db.engine.connection import rows

_LONGEST = 64
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NUMBERED = re.compile(r"chat-[0-9]+")  # the trigger's name for a chat: no other destination may have such a name


class Destination(NamedTuple):
    """A row of ``destinations``: either a chat or an agent."""

    agent: str
    name: str
    target_chat: int | None
    target_agent: str | None


_COLUMNS = listed(Destination._fields)


def slug(text: str) -> str:
    """*text* as a name: lower-case Latin letters, digits and single ``-``; empty if it has none of them. Pure."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:_LONGEST].strip("-")


def of_agent(conn: apsw.Connection, agent: str) -> list[Destination]:
    """The agent's destinations, by name."""
    found = rows(
        conn,
        f"SELECT {_COLUMNS} FROM destinations WHERE agent = :agent ORDER BY name",
        {"agent": agent},
    )
    return list(map(Destination._make, found))


def get(conn: apsw.Connection, agent: str, name: str) -> Destination | None:
    """The agent's destination with this name, or None."""
    found = rows(
        conn,
        f"SELECT {_COLUMNS} FROM destinations WHERE agent = :agent AND name = :name",
        {"agent": agent, "name": name},
    )
    return Destination(*found[0]) if found else None


def find(
    conn: apsw.Connection, agent: str, *, chat: int | None = None, target_agent: str | None = None
) -> Destination | None:
    """The agent's destination for this chat or agent, or None: it may not send there."""
    found = rows(
        conn,
        f"""
        SELECT {_COLUMNS}
          FROM destinations
         WHERE agent = :agent AND target_chat = :chat AND target_chat IS NOT NULL
         UNION ALL
        SELECT {_COLUMNS}
          FROM destinations
         WHERE agent = :agent AND target_agent = :target_agent AND target_agent IS NOT NULL
        """,
        {"agent": agent, "chat": chat, "target_agent": target_agent},
    )
    return Destination(*found[0]) if found else None


def put(
    conn: apsw.Connection,
    agent: str,
    *,
    name: str | None = None,
    chat: int | None = None,
    target_agent: str | None = None,
    now_ms: int,
) -> Destination:
    """Let *agent* send to a chat or to an agent. An existing destination changes only if a name is given.

    Args:
        name: the agent's name for it; None: made of the target's own name, with ``-2`` and so on where that is taken.

    Raises:
        NotFound: there is no such chat or agent.
        ConfigInvalid: the name is invalid, or the agent would send to itself.
        WrongState: another destination of the agent has this name.
    """
    made = _named_after(conn, chat, target_agent)
    if target_agent == agent:
        raise ConfigInvalid(f"agent {agent!r} can't be its own destination: name another agent, or a chat")
    known = find(conn, agent, chat=chat, target_agent=target_agent)
    if known is not None:
        return known if name is None else rename(conn, agent, known.name, name)
    if name is not None:
        _check_name(name)
    called = name or _free(conn, agent, made)
    made_now = rows(
        conn,
        f"""
        INSERT INTO destinations (agent, name, target_chat, target_agent, created_at)
        VALUES (:agent, :name, :chat, :to, :now)
        ON CONFLICT (agent, name) DO NOTHING
        RETURNING {_COLUMNS}
        """,
        {"agent": agent, "name": called, "chat": chat, "to": target_agent, "now": now_ms},
    )
    if not made_now:
        raise _taken(agent, called)
    return Destination(*made_now[0])


def _named_after(conn: apsw.Connection, chat: int | None, target_agent: str | None) -> str:
    if (chat is None) == (target_agent is None):
        raise ConfigInvalid("a destination is either a chat or an agent")
    if chat is None:
        found = rows(conn, "SELECT name FROM agents WHERE id = :id AND retired_at IS NULL", {"id": target_agent})
        if not found:
            raise NotFound(f"there is no agent {target_agent!r} to send to; GET /api/agents lists them")
        name = str(target_agent)
        return f"agent-{name}"[:_LONGEST] if _is_numbered(name) else name
    found = rows(conn, "SELECT name FROM chats WHERE id = :id", {"id": chat})
    if not found:
        raise NotFound(f"there is no chat {chat} to send to; GET /api/chats lists them")
    name = slug(found[0][0] or "")
    return f"chat-{chat}" if not name or _is_numbered(name) else name


def _is_numbered(name: str) -> bool:
    """Whether the trigger uses the name, or would use it with a number appended."""
    return name == "chat" or _NUMBERED.fullmatch(name) is not None


def _free(conn: apsw.Connection, agent: str, wanted: str) -> str:
    """*wanted*, or the first of ``wanted-2``, ``wanted-3`` and so on that no destination of the agent has."""
    taken = {name for (name,) in rows(conn, "SELECT name FROM destinations WHERE agent = :agent", {"agent": agent})}
    name, number = wanted, 1
    while name in taken:
        number += 1
        end = f"-{number}"
        name = wanted[: _LONGEST - len(end)] + end
    return name


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise ConfigInvalid(
            f"destination {name!r}: a name is 1 to {_LONGEST} of a-z, 0-9, _ and -, and begins with a letter or a digit"
        )
    if _NUMBERED.fullmatch(name):
        raise ConfigInvalid(f"destination {name!r}: names of the form chat-NUMBER are kept for chats without a name")


def _taken(agent: str, name: str) -> WrongState:
    return WrongState(f"agent {agent!r} has another destination called {name!r}: rename that one first")


def rename(conn: apsw.Connection, agent: str, name: str, new_name: str) -> Destination:
    """Rename the agent's destination.

    Raises:
        NotFound: the agent has no destination with this name.
        ConfigInvalid: the new name is invalid.
        WrongState: another destination of the agent has the new name.
    """
    if new_name != name:
        _check_name(new_name)
    found = rows(
        conn,
        f"""
        UPDATE OR IGNORE destinations
           SET name = :new_name
         WHERE agent = :agent AND name = :name
        RETURNING {_COLUMNS}
        """,
        {"agent": agent, "name": name, "new_name": new_name},
    )
    if found:
        return Destination(*found[0])
    if get(conn, agent, name) is None:
        raise NotFound(f"agent {agent!r} has no destination {name!r}")
    raise _taken(agent, new_name)


def name_after_chat(conn: apsw.Connection, agent: str, chat: int) -> None:
    """Name the destination after its chat, if it still has the trigger's name with a number."""
    wanted = _named_after(conn, chat, None)
    known = get(conn, agent, f"chat-{chat}")
    if known is not None and wanted != known.name:
        rename(conn, agent, known.name, _free(conn, agent, wanted))


def remove(conn: apsw.Connection, agent: str, name: str) -> bool:
    """The agent may not send there any more. False: it has no such destination.

    Raises:
        WrongState: the agent is wired to that chat, and an agent may send where it answers.
    """
    conn.execute(
        """
        DELETE FROM destinations
         WHERE agent = :agent AND name = :name
           AND NOT EXISTS (SELECT 1
                             FROM wirings w
                            WHERE w.chat_id = destinations.target_chat AND w.agent = destinations.agent)
        """,
        {"agent": agent, "name": name},
    )
    if conn.changes() == 1:
        return True
    known = get(conn, agent, name)
    if known is not None:
        raise WrongState(
            f"agent {agent!r} answers in chat {known.target_chat}, its destination {name!r}: unwire it there instead"
        )
    return False
