"""The actions that an agent may request, and what each does once it is approved. One entry each in ``ACTIONS``.

An impossible request is refused at once, so that no approver sees it. Its arguments are checked again before it runs.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import apsw

from shared.conversation.access import own_bots
from shared.core.errors import ConfigInvalid, NotFound, UnknownName, WrongState
from shared.db.roster import chats, destinations
from shared.roster import agents_and_teams, wirings

Arguments = dict[str, Any]

LONGEST_NAME = 60
LONGEST_INSTRUCTIONS = 20_000


class Action(NamedTuple):
    """An action that an agent may request.

    Attributes:
        words: what it is, after "asks to".
        is_global: whether it concerns more than the requesting agent; then that agent's own admins can't decide it.
        check: takes the agent and its arguments, and returns the arguments to use; raises if one is wrong.
        do: takes the agent and the checked arguments, does the action, and returns a sentence about it.
    """

    words: str
    is_global: bool
    check: Callable[[apsw.Connection, str, Mapping[str, Any]], Arguments]
    do: Callable[..., str]


def get(name: str) -> Action:
    """The action called *name*.

    Raises:
        UnknownName: there is no such action.
    """
    if name not in ACTIONS:
        raise UnknownName("action", name, ACTIONS)
    return ACTIONS[name]


def _check_types(given: Mapping[str, Any], required: Mapping[str, type], optional: Mapping[str, type]) -> Arguments:
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


# -- another agent ----------------------------------------------------------------------------------------------------


def _check_create(conn: apsw.Connection, agent: str, given: Mapping[str, Any]) -> Arguments:
    wanted = _check_types(given, {"name": str}, {"instructions": str, "own_bot": str})
    if not wanted["name"].strip() or len(wanted["name"]) > LONGEST_NAME or not wanted["name"].isprintable():
        raise ConfigInvalid(f"argument 'name' should be 1 to {LONGEST_NAME} visible characters")
    if len(wanted.get("instructions", "")) > LONGEST_INSTRUCTIONS:
        raise ConfigInvalid(f"argument 'instructions' should be at most {LONGEST_INSTRUCTIONS:,} characters")
    agents_and_teams.known_agent(conn, agent)
    checked = {"name": wanted["name"].strip(), "instructions": wanted.get("instructions", "")}
    if not wanted.get("own_bot"):
        return checked
    own_bots.check(conn, wanted["own_bot"])
    return {**checked, "own_bot": wanted["own_bot"]}


def _create(conn: apsw.Connection, agent: str, wanted: Arguments, *, now_ms: int) -> str:
    """Create an agent like the requesting one, with its own folder; each can send to the other."""
    asking = agents_and_teams.known_agent(conn, agent)
    new = agents_and_teams.free_id(conn, wanted["name"])
    like = {"provider": asking.provider, "model": asking.model, "config": asking.config, "timezone": asking.timezone}
    said = {"name": wanted["name"], "instructions": wanted["instructions"]}
    saved = agents_and_teams.save_agent(conn, new, {**said, **like}, timezone=asking.timezone, now_ms=now_ms)
    called = destinations.put(conn, agent, target_agent=new, now_ms=now_ms).name
    back = destinations.put(conn, new, target_agent=agent, now_ms=now_ms).name
    sentence = f"Agent {new} is created: {agent} sends to it as {called}, and it sends to {agent} as {back}."
    if "own_bot" not in wanted:
        return sentence
    return f"{sentence} {own_bots.ask(conn, wanted['own_bot'], saved.agent, now_ms=now_ms)}"


# -- chats ------------------------------------------------------------------------------------------------------------


def _check_wire(conn: apsw.Connection, agent: str, given: Mapping[str, Any]) -> Arguments:
    wanted = _check_types(given, {"channel": str, "platform_id": str}, {})
    chat = chats.find(conn, wanted["channel"], wanted["platform_id"])
    if chat is None:
        raise NotFound(f"there is no chat {wanted['platform_id']!r} on {wanted['channel']!r}")
    agents_and_teams.known_agent(conn, agent)
    return wanted


def _wire(conn: apsw.Connection, agent: str, wanted: Arguments, *, now_ms: int) -> str:
    chat = chats.find(conn, wanted["channel"], wanted["platform_id"])
    if chat is None:
        raise NotFound(f"there is no chat {wanted['platform_id']!r} on {wanted['channel']!r} any more")
    wirings.connect(conn, chat.id, agent, now_ms=now_ms)
    called = destinations.find(conn, agent, chat=chat.id)
    beside = wirings.beside(conn, chat.id, agent)
    return f"{agent} answers there{beside}, and sends to it as {called.name if called else chat.id}."


def _check_unwire(conn: apsw.Connection, agent: str, given: Mapping[str, Any]) -> Arguments:
    wanted = _check_types(given, {"destination": str}, {})
    _chat_called(conn, agent, wanted["destination"])
    return wanted


def _unwire(conn: apsw.Connection, agent: str, wanted: Arguments, *, now_ms: int) -> str:
    if not wirings.disconnect(conn, _chat_called(conn, agent, wanted["destination"]), agent):
        raise WrongState(f"{agent} does not answer in {wanted['destination']!r}")
    return f"{agent} no longer answers there, and sends nothing there."


def _chat_called(conn: apsw.Connection, agent: str, name: str) -> int:
    found = destinations.get(conn, agent, name)
    if found is None or found.target_chat is None:
        raise NotFound(f"agent {agent!r} has no chat {name!r} among its destinations")
    return found.target_chat


# -- another agent in a chat ------------------------------------------------------------------------------------------


def _check_register(conn: apsw.Connection, agent: str, given: Mapping[str, Any]) -> Arguments:
    """Both are named by destinations of the requesting agent, so it can name nothing that it does not know."""
    wanted = _check_types(
        given, {"agent": str, "chat": str}, dict.fromkeys(("agent_id", "channel", "platform_id"), str)
    )
    other = destinations.get(conn, agent, wanted["agent"])
    if other is None or other.target_agent is None:
        raise NotFound(f"agent {agent!r} has no agent {wanted['agent']!r} among its destinations")
    chat = chats.get(conn, _chat_called(conn, agent, wanted["chat"]))
    if chat is None or chat.status != "active":
        raise WrongState(f"the chat {wanted['chat']!r} is inactive: the bot was blocked there or removed")
    agents_and_teams.known_agent(conn, other.target_agent)
    place = {"agent_id": other.target_agent, "channel": chat.channel, "platform_id": chat.platform_id}
    if any(given.get(name, found) != found for name, found in place.items()):
        raise WrongState("one of the names means another agent or chat by now than on the card: ask again")
    return {"agent": wanted["agent"], "chat": wanted["chat"], **place}


def _register(conn: apsw.Connection, agent: str, wanted: Arguments, *, now_ms: int) -> str:
    chat_id = _chat_called(conn, agent, wanted["chat"])
    wirings.connect(conn, chat_id, wanted["agent_id"], now_ms=now_ms)
    return f"{wanted['agent_id']} answers in {wanted['chat']}{wirings.beside(conn, chat_id, wanted['agent_id'])}."


ACTIONS: Mapping[str, Action] = {
    "create_agent": Action("make another agent, like itself", True, _check_create, _create),
    "register_agent_group": Action("let another agent answer in a chat", True, _check_register, _register),
    "wire_chat": Action("answer in a chat", True, _check_wire, _wire),
    "unwire_chat": Action("stop answering in a chat", False, _check_unwire, _unwire),
}
