"""The list of tool servers that the operator keeps, and which agents have them. REST, CLI and approvals use it."""

import re
from collections.abc import Mapping, Sequence

import apsw

from shared.agents.tool_servers import ToolServer
from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.db.roster import tool_servers
from shared.db.roster.agents import Agent
from shared.db.roster.tool_servers import ListedServer
from shared.roster.agents_and_teams import known_agent

MOST_TOOLS = 64
MOST_WORDS = 50
LONGEST_TEXT = 1000  # of a word of its command, or of what a tool is for
PROVIDERS = ("claude", "codex", "opencode", "anthropic", "openai", "auto")  # their programs start such servers
_OURS = "postroom"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")


def save(
    conn: apsw.Connection, name: str, command: Sequence[str], tools: Mapping[str, str], *, now_ms: int
) -> tuple[str, ...]:
    """Put a server on the list, or change it; the agents that it was taken from because it changed.

    Raises:
        ConfigInvalid: says what is wrong, and why.
    """
    if not _NAME.fullmatch(name) or name == _OURS:
        raise ConfigInvalid(f"a tool server can't be called {name!r}: a to z, 0 to 9 and -, but not {_OURS!r}")
    if not command or len(command) > MOST_WORDS or any(not each or len(each) > LONGEST_TEXT for each in command):
        raise ConfigInvalid(f"the command of a tool server has 1 to {MOST_WORDS} words")
    if not tools or len(tools) > MOST_TOOLS:
        raise ConfigInvalid(f"a tool server has 1 to {MOST_TOOLS} tools; {name!r} has {len(tools)}")
    for tool, about in tools.items():
        if not _TOOL.fullmatch(tool) or len(about) > LONGEST_TEXT:
            raise ConfigInvalid(f"the tool {tool[:80]!r} has a wrong name, or more than {LONGEST_TEXT} characters")
    return tool_servers.put(conn, ListedServer(name, tuple(command), tools), now_ms=now_ms)


def known(conn: apsw.Connection, name: str) -> ListedServer:
    """The server of the list.

    Raises:
        NotFound: it is not there; the message names the others.
    """
    found = tool_servers.get(conn, name)
    if found is None:
        others = ", ".join(each.name for each in tool_servers.every(conn)) or "nothing"
        raise NotFound(f"there is no tool server {name[:64]!r} on the operator's list; it has: {others}")
    return found


def check_can_have(agent: Agent) -> None:
    """Check that the agent's program can start tool servers.

    Raises:
        WrongState: it can't.
    """
    if agent.provider not in PROVIDERS:
        raise WrongState(
            f"agent {agent.id!r} can have no tool server, because its provider {agent.provider!r} starts none: "
            "claude, codex and opencode do"
        )


def give(conn: apsw.Connection, agent: str, name: str, *, now_ms: int) -> ListedServer:
    """Let the agent have the server, from its next turn on.

    Raises:
        NotFound, WrongState: there is no such agent or server, or its program starts none.
    """
    found = known(conn, name)
    check_can_have(known_agent(conn, agent))
    tool_servers.give(conn, agent, name, now_ms=now_ms)
    return found


def take(conn: apsw.Connection, agent: str, name: str) -> None:
    """Take the server from the agent.

    Raises:
        NotFound: it does not have it.
    """
    if not tool_servers.take(conn, agent, name):
        raise NotFound(f"agent {agent!r} has no tool server {name!r}")


def of_program(conn: apsw.Connection, agent: Agent) -> tuple[ToolServer, ...]:
    """The servers that the agent's program starts; none where it can't."""
    if agent.provider not in PROVIDERS:
        return ()
    found = tool_servers.of_agent(conn, agent.id)
    return tuple(ToolServer(each.name, each.command, tuple(each.tools)) for each in found)
