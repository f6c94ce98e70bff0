"""The arguments of actions that agents request: their types, and the things that they name."""

from collections.abc import Mapping
from typing import Any

import apsw

from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.db.roster import chats, destinations, wirings
from shared.db.roster.chats import Chat

Arguments = dict[str, Any]
Facts = dict[str, Any]


def check_types(given: Mapping[str, Any], required: Mapping[str, type], optional: Mapping[str, type]) -> Arguments:
    """The arguments, if none is missing, unknown or of the wrong type."""
    known = {**required, **optional}
    for name, value in given.items():
        if name not in known:
            raise ConfigInvalid(f"there is no argument {name!r}; known: {', '.join(known)}")
        if not isinstance(value, known[name]) or isinstance(value, bool):
            raise ConfigInvalid(f"argument {name!r} should be a {known[name].__name__}")
    missing = [name for name in required if name not in given]
    if missing:
        raise ConfigInvalid(f"argument {missing[0]!r} is missing")
    return dict(given)


def chat_called(conn: apsw.Connection, agent: str, name: str) -> int:
    """The row of the chat that *agent* calls so."""
    found = destinations.get(conn, agent, name)
    if found is None or found.target_chat is None:
        raise NotFound(f"agent {agent!r} has no chat {name!r} among its destinations")
    return found.target_chat


def active_chat_called(conn: apsw.Connection, agent: str, name: str) -> Chat:
    """The chat that *agent* calls so, if the bot is there."""
    chat = chats.get(conn, chat_called(conn, agent, name))
    if chat is None or chat.status != "active":
        raise WrongState(f"the chat {name!r} is inactive: the bot was blocked there or removed")
    return chat


def agent_called(conn: apsw.Connection, agent: str, name: str) -> str:
    """The id of the agent that *agent* calls so."""
    other = destinations.get(conn, agent, name)
    if other is None or other.target_agent is None:
        raise NotFound(f"agent {agent!r} has no agent {name!r} among its destinations")
    return other.target_agent


def check_same(given: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Check that the names of the card still mean the same."""
    if any(given.get(name, value) != value for name, value in found.items()):
        raise WrongState("one of the names now means a different agent or chat than on the card: ask again")


def answering(conn: apsw.Connection, chat_id: int) -> list[str]:
    """The ids of the agents that answer in the chat, sorted."""
    return sorted(each.agent for each in wirings.of_chat(conn, chat_id))
