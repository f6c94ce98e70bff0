"""Agents: identity, folder, provider."""

import json
from dataclasses import dataclass
from typing import Any

import apsw

from shared.db.connection import rows, scalar
from shared.errors import ConfigInvalid, WrongState

DEFAULT_AGENT = "assistant"

_SELECT = (
    "SELECT id, name, provider, model, folder, instructions, config, concurrency, timezone, is_default FROM agents"
)


RESERVED = ("operator", "user")  # a person in the mailbox, and one in a room


@dataclass(frozen=True, slots=True)
class Agent:
    """One row of ``agents``."""

    id: str
    name: str
    provider: str
    model: str | None
    folder: str | None
    instructions: str
    config: dict[str, Any]
    concurrency: int
    timezone: str
    is_default: bool


def _agent(row: tuple[Any, ...]) -> Agent:
    id_, name, provider, model, folder, instructions, config, concurrency, timezone, is_default = row
    return Agent(
        id_, name, provider, model, folder, instructions, json.loads(config), concurrency, timezone, bool(is_default)
    )


def get(conn: apsw.Connection, agent_id: str) -> Agent | None:
    """The agent with this id, or None."""
    found = rows(conn, _SELECT + " WHERE id = :id", {"id": agent_id})
    return _agent(found[0]) if found else None


def every(conn: apsw.Connection) -> list[Agent]:
    """All agents, by id."""
    return [_agent(row) for row in rows(conn, _SELECT + " ORDER BY id")]


def default(conn: apsw.Connection) -> Agent | None:
    """The agent that answers where nobody is named."""
    found = rows(conn, _SELECT + " WHERE is_default = 1")
    return _agent(found[0]) if found else None


def ensure_default(conn: apsw.Connection, *, timezone: str, now_ms: int) -> None:
    """Give a database without agents its first: the echo agent, which needs no account."""
    conn.execute(
        """
        INSERT INTO agents (id, name, provider, timezone, is_default, created_at, updated_at)
        SELECT :id, 'Assistant', 'echo', :timezone, 1, :now, :now
         WHERE NOT EXISTS (SELECT 1 FROM agents)
        """,
        {"id": DEFAULT_AGENT, "timezone": timezone, "now": now_ms},
    )


def save(conn: apsw.Connection, agent: Agent, *, now_ms: int) -> None:
    """Create the agent, or replace all of its settings; who is the default stays as it is.

    Raises:
        ConfigInvalid: the id is taken by people.
    """
    if agent.id in RESERVED:
        raise ConfigInvalid(f"no agent can be called {agent.id!r}: that is what people are called; take another id")
    conn.execute(
        """
        INSERT INTO agents (id, name, provider, model, folder, instructions, config, concurrency, timezone,
                            created_at, updated_at)
        VALUES (:id, :name, :provider, :model, :folder, :instructions, :config, :concurrency, :timezone, :now, :now)
        ON CONFLICT (id) DO UPDATE
           SET name = excluded.name, provider = excluded.provider, model = excluded.model, folder = excluded.folder,
               instructions = excluded.instructions, config = excluded.config, concurrency = excluded.concurrency,
               timezone = excluded.timezone, updated_at = excluded.updated_at
        """,
        {
            "id": agent.id,
            "name": agent.name,
            "provider": agent.provider,
            "model": agent.model,
            "folder": agent.folder,
            "instructions": agent.instructions,
            "config": json.dumps(agent.config),
            "concurrency": agent.concurrency,
            "timezone": agent.timezone,
            "now": now_ms,
        },
    )


def delete(conn: apsw.Connection, agent_id: str) -> None:
    """Forget an agent that has no sessions yet, and where it would have answered.

    Raises:
        WrongState: somebody has talked to it, or it leads a team.
    """
    if scalar(conn, "SELECT EXISTS (SELECT 1 FROM sessions WHERE agent = :id)", {"id": agent_id}):
        raise WrongState(f"agent {agent_id!r} has sessions, and messages that name it: it can't be deleted")
    team = scalar(conn, "SELECT id FROM teams WHERE leader = :id", {"id": agent_id})
    if team is not None:
        raise WrongState(f"agent {agent_id!r} leads the team {team!r}: give that another leader first")
    conn.execute("DELETE FROM agents WHERE id = :id", {"id": agent_id})
