"""Actions by which an agent changes itself: how it answers in a chat, its session, its instructions, its tools."""

import hashlib
from collections.abc import Mapping
from typing import Any

import apsw

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
from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.db.queue import sessions
from shared.db.queue.sessions import Session
from shared.queue import session_reset
from shared.roster import agents_and_teams, tool_servers, wirings

LONGEST_INSTRUCTIONS = 20_000

# -- a wiring ---------------------------------------------------------------------------------------------------------


def check_wiring(conn: apsw.Connection, agent: str, given: Mapping[str, Any]) -> Arguments:
    """The chat, and the agent where it is another one, are named by destinations of the requesting agent."""
    names = dict.fromkeys(("agent", "agent_id", "channel", "platform_id"), str)
    wanted = check_types(given, {"chat": str, "settings": dict}, names)
    chat = active_chat_called(conn, agent, wanted["chat"])
    other = agent_called(conn, agent, wanted["agent"]) if wanted.get("agent") else agent
    place = {"agent_id": other, "channel": chat.channel, "platform_id": chat.platform_id}
    check_same(given, place)
    wirings.wanted(conn, chat.id, other, wanted["settings"])
    called = {"agent": wanted["agent"]} if wanted.get("agent") else {}
    return {"chat": wanted["chat"], **called, **place, "settings": wanted["settings"]}


def facts_of_wiring(conn: apsw.Connection, agent: str, wanted: Arguments) -> Facts:
    """What the change begins from."""
    chat_id = chat_called(conn, agent, wanted["chat"])
    return {
        "answers there now": answering(conn, chat_id),
        "its settings now": wirings.settings_now(conn, chat_id, wanted["agent_id"]),
    }


def change_wiring(conn: apsw.Connection, agent: str, wanted: Arguments, *, now_ms: int) -> str:
    """Make the wiring, or change these settings of it."""
    chat_id, other = chat_called(conn, agent, wanted["chat"]), wanted["agent_id"]
    wirings.connect(conn, chat_id, other, wanted["settings"], now_ms=now_ms)
    changed = ", ".join(f"{name} = {value}" for name, value in wanted["settings"].items()) or "the defaults"
    return f"{other} answers in {wanted['chat']}{wirings.beside(conn, chat_id, other)}, with {changed}."


# -- a session --------------------------------------------------------------------------------------------------------


def check_session(conn: apsw.Connection, agent: str, given: Mapping[str, Any]) -> Arguments:
    """A session of its own that is active."""
    wanted = check_types(given, {"session": str}, {})
    _session(conn, agent, wanted["session"])
    return wanted


def reset_session(conn: apsw.Connection, agent: str, wanted: Arguments, *, now_ms: int) -> str:
    """Begin the session anew."""
    session_reset.reset(conn, _session(conn, agent, wanted["session"]).id, now_ms=now_ms)
    return "A new conversation begins: the agent no longer knows what was said before."


def _session(conn: apsw.Connection, agent: str, name: str) -> Session:
    found = sessions.find(conn, name)
    if found is None or found.agent != agent:
        raise NotFound(f"agent {agent!r} has no session {name!r}")
    if found.status != "active":
        raise WrongState(f"the session {name!r} is closed already: another one has replaced it")
    return found


# -- its instructions -------------------------------------------------------------------------------------------------


def check_instructions(conn: apsw.Connection, agent: str, given: Mapping[str, Any]) -> Arguments:
    """The whole new text."""
    wanted = check_types(given, {"instructions": str}, {})
    if len(wanted["instructions"]) > LONGEST_INSTRUCTIONS:
        raise ConfigInvalid(f"argument 'instructions' should be at most {LONGEST_INSTRUCTIONS:,} characters")
    if wanted["instructions"] == agents_and_teams.known_agent(conn, agent).instructions:
        raise WrongState("these are its instructions already")
    return wanted


def facts_of_instructions(conn: apsw.Connection, agent: str, wanted: Arguments) -> Facts:
    """Which text the new one takes the place of."""
    before = agents_and_teams.known_agent(conn, agent).instructions
    digest = hashlib.sha256(before.encode()).hexdigest()[:12]
    return {"instructions now": f"{len(before):,} characters, SHA-256 {digest}…"}


def change_instructions(conn: apsw.Connection, agent: str, wanted: Arguments, *, now_ms: int) -> str:
    """Give the agent the new text, from its next turn on."""
    known = agents_and_teams.known_agent(conn, agent)
    agents_and_teams.save_agent(conn, agent, wanted, timezone=known.timezone, now_ms=now_ms)
    return f"{agent} has its new instructions from its next turn on."


# -- a tool server ----------------------------------------------------------------------------------------------------


def check_server(conn: apsw.Connection, agent: str, given: Mapping[str, Any]) -> Arguments:
    """A server of the operator's list that the agent does not have."""
    wanted = check_types(given, {"server": str}, {})
    server = tool_servers.known(conn, wanted["server"])
    tool_servers.check_can_have(agents_and_teams.known_agent(conn, agent))
    if agent in server.agents:
        raise WrongState(f"you have the tool server {server.name!r} already")
    return wanted


def facts_of_server(conn: apsw.Connection, agent: str, wanted: Arguments) -> Facts:
    """What the agent's program would start, and which tools it could call."""
    server = tool_servers.known(conn, wanted["server"])
    tools = {f"tool {name}": about for name, about in server.tools.items()}
    return {"program": agents_and_teams.known_agent(conn, agent).provider, "starts": list(server.command), **tools}


def install_server(conn: apsw.Connection, agent: str, wanted: Arguments, *, now_ms: int) -> str:
    """Give the server to the agent."""
    server = tool_servers.give(conn, agent, wanted["server"], now_ms=now_ms)
    return f"{agent} has the tools of {server.name} from its next turn on: {', '.join(server.tools)}."
