"""The actions that an agent may request, and what each does once it is approved. One entry each in ``ACTIONS``.

An impossible request is refused at once, so that no approver sees it. Its arguments are checked again before it runs.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import apsw

from shared.conversation.access import own_actions, own_bots
from shared.conversation.access.action_arguments import (
    Arguments,
    Facts,
    active_chat_called,
    agent_called,
    answering,
    chat_called,
    check_same,
    check_types,
)
from shared.core.errors import ConfigInvalid, NotFound, UnknownName, WrongState
from shared.db.roster import chats, destinations
from shared.roster import agents_and_teams, wirings

LONGEST_NAME = 60


def _no_facts(_: apsw.Connection, __: str, ___: Arguments) -> Facts:
    return {}


class Action(NamedTuple):
    """An action that an agent may request.

    Attributes:
        words: what it is, after "asks to".
        is_global: whether it concerns more than the requesting agent; then that agent's own admins can't decide it.
        check: takes the agent and its arguments, and returns the arguments to use; raises if one is wrong.
        do: takes the agent and the checked arguments, does the action, and returns a sentence about it.
        facts: takes the agent and the checked arguments, and returns what the action begins from. The card shows it;
            where it has changed by the decision, nothing is done.
    """

    words: str
    is_global: bool
    check: Callable[[apsw.Connection, str, Mapping[str, Any]], Arguments]
    do: Callable[..., str]
    facts: Callable[[apsw.Connection, str, Arguments], Facts] = _no_facts


def get(name: str) -> Action:
    """The action called *name*.

    Raises:
        UnknownName: there is no such action.
    """
    if name not in ACTIONS:
        raise UnknownName("action", name, ACTIONS)
    return ACTIONS[name]


# -- another agent ----------------------------------------------------------------------------------------------------


def _check_create(conn: apsw.Connection, agent: str, given: Mapping[str, Any]) -> Arguments:
    wanted = check_types(given, {"name": str}, {"instructions": str, "own_bot": str})
    if not wanted["name"].strip() or len(wanted["name"]) > LONGEST_NAME or not wanted["name"].isprintable():
        raise ConfigInvalid(f"argument 'name' should be 1 to {LONGEST_NAME} visible characters")
    if len(wanted.get("instructions", "")) > own_actions.LONGEST_INSTRUCTIONS:
        raise ConfigInvalid(
            f"argument 'instructions' should be at most {own_actions.LONGEST_INSTRUCTIONS:,} characters"
        )
    agents_and_teams.known_agent(conn, agent)
    checked = {"name": wanted["name"].strip(), "instructions": wanted.get("instructions", "")}
    if not wanted.get("own_bot"):
        return checked
    own_bots.check(conn, wanted["own_bot"])
    return {**checked, "own_bot": wanted["own_bot"]}


def _facts_of_new_agent(conn: apsw.Connection, agent: str, _: Arguments) -> Facts:
    like = agents_and_teams.known_agent(conn, agent)
    return {"provider": like.provider, "model": like.model, "config": dict(like.config), "time zone": like.timezone}


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
    wanted = check_types(given, {"channel": str, "platform_id": str}, {})
    chat = chats.find(conn, wanted["channel"], wanted["platform_id"])
    if chat is None:
        raise NotFound(f"there is no chat {wanted['platform_id']!r} on {wanted['channel']!r}")
    agents_and_teams.known_agent(conn, agent)
    return wanted


def _wire(conn: apsw.Connection, agent: str, wanted: Arguments, *, now_ms: int) -> str:
    chat = chats.find(conn, wanted["channel"], wanted["platform_id"])
    if chat is None:
        raise NotFound(f"there is no chat {wanted['platform_id']!r} on {wanted['channel']!r}: it was deleted")
    wirings.connect(conn, chat.id, agent, now_ms=now_ms)
    called = destinations.find(conn, agent, chat=chat.id)
    beside = wirings.beside(conn, chat.id, agent)
    return f"{agent} answers there{beside}, and sends to it as {called.name if called else chat.id}."


def _facts_of_place(conn: apsw.Connection, _: str, wanted: Arguments) -> Facts:
    chat = chats.find(conn, wanted["channel"], wanted["platform_id"])
    return {"answers there now": answering(conn, chat.id) if chat is not None else []}


def _check_unwire(conn: apsw.Connection, agent: str, given: Mapping[str, Any]) -> Arguments:
    wanted = check_types(given, {"destination": str}, {})
    chat_called(conn, agent, wanted["destination"])
    return wanted


def _unwire(conn: apsw.Connection, agent: str, wanted: Arguments, *, now_ms: int) -> str:
    if not wirings.disconnect(conn, chat_called(conn, agent, wanted["destination"]), agent):
        raise WrongState(f"{agent} does not answer in {wanted['destination']!r}")
    return f"{agent} no longer answers there, and sends nothing there."


# -- another agent in a chat ------------------------------------------------------------------------------------------


def _check_register(conn: apsw.Connection, agent: str, given: Mapping[str, Any]) -> Arguments:
    """Both are named by destinations of the requesting agent, so it can name nothing that it does not know."""
    wanted = check_types(given, {"agent": str, "chat": str}, dict.fromkeys(("agent_id", "channel", "platform_id"), str))
    other = agent_called(conn, agent, wanted["agent"])
    chat = active_chat_called(conn, agent, wanted["chat"])
    agents_and_teams.known_agent(conn, other)
    place = {"agent_id": other, "channel": chat.channel, "platform_id": chat.platform_id}
    check_same(given, place)
    return {"agent": wanted["agent"], "chat": wanted["chat"], **place}


def _register(conn: apsw.Connection, agent: str, wanted: Arguments, *, now_ms: int) -> str:
    chat_id = chat_called(conn, agent, wanted["chat"])
    wirings.connect(conn, chat_id, wanted["agent_id"], now_ms=now_ms)
    return f"{wanted['agent_id']} answers in {wanted['chat']}{wirings.beside(conn, chat_id, wanted['agent_id'])}."


ACTIONS: Mapping[str, Action] = {
    "create_agent": Action("make another agent, like itself", True, _check_create, _create, _facts_of_new_agent),
    "register_agent_group": Action(
        "let another agent answer in a chat", True, _check_register, _register, _facts_of_place
    ),
    "wire_chat": Action("answer in a chat", True, _check_wire, _wire, _facts_of_place),
    "unwire_chat": Action("stop answering in a chat", False, _check_unwire, _unwire),
    "change_wiring": Action(
        "change when an agent answers in a chat",
        True,
        own_actions.check_wiring,
        own_actions.change_wiring,
        own_actions.facts_of_wiring,
    ),
    "reset_session": Action("start a new conversation", False, own_actions.check_session, own_actions.reset_session),
    "change_instructions": Action(
        "change its instructions",
        False,
        own_actions.check_instructions,
        own_actions.change_instructions,
        own_actions.facts_of_instructions,
    ),
    "install_tool_server": Action(
        "use a tool server",
        False,
        own_actions.check_server,
        own_actions.install_server,
        own_actions.facts_of_server,
    ),
}
