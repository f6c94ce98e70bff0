"""What an agent may ask to have done, and what is done on a yes. One entry each in ``ACTIONS``.

What can't be done is refused when it is asked for, so that nobody is shown it; it is looked at again when it is done.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import apsw

from shared.core.errors import ConfigInvalid, NotFound, UnknownName, WrongState
from shared.db.roster import chats, destinations
from shared.roster import agents_and_teams, wirings

Arguments = dict[str, Any]

LONGEST_NAME = 60
LONGEST_INSTRUCTIONS = 20_000


class Action(NamedTuple):
    """Something that can be asked for.

    Attributes:
        words: what it is, after "asks to".
        is_global: whether it concerns more than the agent that asks: then its own admins can't decide it.
        check: the arguments as they will be done; raises what is wrong with them.
        do: does it, and says what was done; the agent that asks, the checked arguments.
    """

    words: str
    is_global: bool
    check: Callable[[apsw.Connection, str, Mapping[str, Any]], Arguments]
    do: Callable[..., str]


def get(name: str) -> Action:
    """The action called *name*.

    Raises:
        UnknownName: there is none.
    """
    if name not in ACTIONS:
        raise UnknownName("action", name, ACTIONS)
    return ACTIONS[name]


def _named(given: Mapping[str, Any], required: Mapping[str, type], optional: Mapping[str, type]) -> Arguments:
    """What was given, if it is all there, all known, and of the right kind."""
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
    wanted = _named(given, {"name": str}, {"instructions": str})
    if not wanted["name"].strip() or len(wanted["name"]) > LONGEST_NAME or not wanted["name"].isprintable():
        raise ConfigInvalid(f"argument 'name' should be 1 to {LONGEST_NAME} characters that can be seen")
    if len(wanted.get("instructions", "")) > LONGEST_INSTRUCTIONS:
        raise ConfigInvalid(f"argument 'instructions' should be at most {LONGEST_INSTRUCTIONS:,} characters")
    agents_and_teams.known_agent(conn, agent)
    return {"name": wanted["name"].strip(), "instructions": wanted.get("instructions", "")}


def _create(conn: apsw.Connection, agent: str, wanted: Arguments, *, now_ms: int) -> str:
    """An agent like the one that asks, with a folder of its own; each can send to the other."""
    asking = agents_and_teams.known_agent(conn, agent)
    new = agents_and_teams.free_id(conn, wanted["name"])
    like = {"provider": asking.provider, "model": asking.model, "config": asking.config, "timezone": asking.timezone}
    agents_and_teams.save_agent(conn, new, {**wanted, **like}, timezone=asking.timezone, now_ms=now_ms)
    called = destinations.put(conn, agent, target_agent=new, now_ms=now_ms).name
    back = destinations.put(conn, new, target_agent=agent, now_ms=now_ms).name
    return f"Agent {new} is made: {agent} sends to it as {called}, and it to {agent} as {back}."


# -- chats ------------------------------------------------------------------------------------------------------------


def _check_wire(conn: apsw.Connection, agent: str, given: Mapping[str, Any]) -> Arguments:
    wanted = _named(given, {"channel": str, "platform_id": str}, {})
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
    return f"{agent} answers there, and sends to it as {called.name if called else chat.id}."


def _check_unwire(conn: apsw.Connection, agent: str, given: Mapping[str, Any]) -> Arguments:
    wanted = _named(given, {"destination": str}, {})
    _chat_called(conn, agent, wanted["destination"])
    return wanted


def _unwire(conn: apsw.Connection, agent: str, wanted: Arguments, *, now_ms: int) -> str:
    if not wirings.disconnect(conn, _chat_called(conn, agent, wanted["destination"]), agent):
        raise WrongState(f"{agent} does not answer in {wanted['destination']!r}")
    return f"{agent} answers there no more, and sends nothing there."


def _chat_called(conn: apsw.Connection, agent: str, name: str) -> int:
    found = destinations.get(conn, agent, name)
    if found is None or found.target_chat is None:
        raise NotFound(f"agent {agent!r} calls no chat {name!r}")
    return found.target_chat


ACTIONS: Mapping[str, Action] = {
    "create_agent": Action("make another agent, like itself", True, _check_create, _create),
    "wire_chat": Action("answer in a chat", True, _check_wire, _wire),
    "unwire_chat": Action("answer in a chat no more", False, _check_unwire, _unwire),
}
