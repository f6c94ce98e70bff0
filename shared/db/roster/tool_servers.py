"""Tool servers: programs with tools (MCP) that the operator allows, and the agents that have them.

An agent has a server as it was when that was decided: a server that changes is taken from its agents.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows


class ListedServer(NamedTuple):
    """A row of ``tool_servers``. *tools*: what each is for, by name. *agents*: the ids of those that have it."""

    name: str
    command: tuple[str, ...]
    tools: Mapping[str, str]
    agents: tuple[str, ...] = ()


_SELECT = """
    SELECT s.name, s.command, s.tools,
           (SELECT json_group_array(a.agent ORDER BY a.agent) FROM agent_tool_servers a WHERE a.server = s.name)
      FROM tool_servers s
"""

_PUT = """
    INSERT INTO tool_servers (name, command, tools, created_at, updated_at)
    VALUES (:name, :command, :tools, :now, :now)
    ON CONFLICT (name) DO UPDATE
       SET command = excluded.command, tools = excluded.tools, updated_at = excluded.updated_at
"""

OF_AGENT = (
    _SELECT
    + """
     WHERE s.name IN (SELECT server FROM agent_tool_servers WHERE agent = :agent)
     ORDER BY s.name
    """
)


def _read(found: Sequence[tuple[str, str, str, str]]) -> list[ListedServer]:
    return [
        ListedServer(name, tuple(json.loads(command)), json.loads(tools), tuple(json.loads(agents)))
        for name, command, tools, agents in found
    ]


def every(conn: apsw.Connection) -> list[ListedServer]:
    """All servers, by name."""
    return _read(rows(conn, _SELECT + " ORDER BY s.name"))


def get(conn: apsw.Connection, name: str) -> ListedServer | None:
    """The server, or None."""
    found = _read(rows(conn, _SELECT + " WHERE s.name = :name", {"name": name}))
    return found[0] if found else None


def of_agent(conn: apsw.Connection, agent: str) -> list[ListedServer]:
    """The servers that the agent has, by name."""
    return _read(rows(conn, OF_AGENT, {"agent": agent}))


def put(conn: apsw.Connection, server: ListedServer, *, now_ms: int) -> tuple[str, ...]:
    """Save the server. If that changes it, it is taken from its agents: their ids."""
    before = get(conn, server.name)
    tools = json.dumps(dict(server.tools), ensure_ascii=False)
    values = {"name": server.name, "command": json.dumps(server.command), "tools": tools, "now": now_ms}
    conn.execute(_PUT, values)
    if before is None or before[:3] == server[:3]:
        return ()
    conn.execute("DELETE FROM agent_tool_servers WHERE server = :name", values)
    return before.agents


def delete(conn: apsw.Connection, name: str) -> bool:
    """Delete the server, also from its agents. False: there is none."""
    conn.execute("DELETE FROM tool_servers WHERE name = :name", {"name": name})
    return conn.changes() == 1


def give(conn: apsw.Connection, agent: str, name: str, *, now_ms: int) -> None:
    """Let the agent have the server, from its next turn on."""
    conn.execute(
        """
        INSERT INTO agent_tool_servers (agent, server, created_at)
        VALUES (:agent, :server, :now)
        ON CONFLICT DO NOTHING
        """,
        {"agent": agent, "server": name, "now": now_ms},
    )


def take(conn: apsw.Connection, agent: str, name: str) -> bool:
    """Take the server from the agent. False: it does not have it."""
    conn.execute(
        "DELETE FROM agent_tool_servers WHERE agent = :agent AND server = :server", {"agent": agent, "server": name}
    )
    return conn.changes() == 1
