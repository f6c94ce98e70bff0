"""Agents: identity, folder, provider, limits.

One that is deleted after it was talked to is *retired*: its messages go on to name it, and to everybody else it is not
there any more.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import apsw

from shared.core.errors import ConfigInvalid, WrongState
from shared.db.engine.connection import rows, scalar

DEFAULT_AGENT = "assistant"

_SELECT = """
    SELECT id, name, provider, model, folder, instructions, config, concurrency, timezone, is_default,
           turn_timeout_ms, batch_size, retired_at
      FROM agents
"""


RESERVED = ("operator", "user")  # a person in the mailbox, and one in a room


@dataclass(frozen=True, slots=True)
class Agent:
    """One row of ``agents``. *turn_timeout_ms*, *batch_size*: None is as the settings say."""

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
    turn_timeout_ms: int | None = None
    batch_size: int | None = None
    retired_at: int | None = None


_FIELDS = tuple(field.name for field in fields(Agent))


def _agent(row: Sequence[Any]) -> Agent:
    values = dict(zip(_FIELDS, row, strict=True))
    values["config"] = json.loads(values["config"])
    values["is_default"] = bool(values["is_default"])
    return Agent(**values)


def get(conn: apsw.Connection, agent_id: str) -> Agent | None:
    """The agent with this id, or None; a retired one is none."""
    agent = find(conn, agent_id)
    return agent if agent is not None and agent.retired_at is None else None


def find(conn: apsw.Connection, agent_id: str) -> Agent | None:
    """The agent with this id, retired or not, or None."""
    found = rows(conn, _SELECT + " WHERE id = :id", {"id": agent_id})
    return _agent(found[0]) if found else None


def every(conn: apsw.Connection) -> list[Agent]:
    """All agents but the retired ones, by id."""
    return [_agent(row) for row in rows(conn, _SELECT + " WHERE retired_at IS NULL ORDER BY id")]


def every_with_retired(conn: apsw.Connection) -> list[Agent]:
    """All agents, the retired ones among them, by id."""
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
    """Create the agent, or replace all of its settings, and it is not retired; who is the default stays as it is.

    Raises:
        ConfigInvalid: the id is taken by people.
    """
    if agent.id in RESERVED:
        raise ConfigInvalid(f"no agent can be called {agent.id!r}: that is what people are called; take another id")
    conn.execute(
        """
        INSERT INTO agents (id, name, provider, model, folder, instructions, config, concurrency, timezone,
                            turn_timeout_ms, batch_size, created_at, updated_at)
        VALUES (:id, :name, :provider, :model, :folder, :instructions, :config, :concurrency, :timezone,
                :turn_timeout_ms, :batch_size, :now, :now)
        ON CONFLICT (id) DO UPDATE
           SET name = excluded.name, provider = excluded.provider, model = excluded.model, folder = excluded.folder,
               instructions = excluded.instructions, config = excluded.config, concurrency = excluded.concurrency,
               timezone = excluded.timezone, turn_timeout_ms = excluded.turn_timeout_ms,
               batch_size = excluded.batch_size, retired_at = NULL, updated_at = excluded.updated_at
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
            "turn_timeout_ms": agent.turn_timeout_ms,
            "batch_size": agent.batch_size,
            "now": now_ms,
        },
    )


def make_default(conn: apsw.Connection, agent_id: str, *, now_ms: int) -> None:
    """From now on this agent answers where nobody is named, and no other."""
    changed = {"id": agent_id, "now": now_ms}
    conn.execute(
        "UPDATE agents SET is_default = 0, updated_at = :now WHERE is_default = 1 AND id <> :id",
        changed,
    )
    conn.execute("UPDATE agents SET is_default = 1, updated_at = :now WHERE id = :id AND is_default = 0", changed)


COUNT_OPEN_MESSAGES = """
    SELECT (SELECT count(*)
              FROM messages
             WHERE agent = :agent AND trigger = 1 AND (status = 'pending' OR status = 'processing'))
         + (SELECT count(*)
              FROM messages
             WHERE (status = 'paused' OR status = 'cancelled') AND status = 'paused' AND agent = :agent)
"""


def count_open_messages(conn: apsw.Connection, agent_id: str) -> int:
    """How many messages ask the agent for a turn, run, or are paused."""
    count: int = scalar(conn, COUNT_OPEN_MESSAGES, {"agent": agent_id})
    return count


def has_history(conn: apsw.Connection, agent_id: str) -> bool:
    """Whether there are sessions, and so perhaps messages, that name the agent."""
    return bool(scalar(conn, "SELECT EXISTS (SELECT 1 FROM sessions WHERE agent = :id)", {"id": agent_id}))


def retire(conn: apsw.Connection, agent_id: str, *, now_ms: int) -> None:
    """Take the agent out of every chat, team and destination, and revoke its pairing codes; messages still name it.

    Raises:
        WrongState: it leads a team, or is retired already.
    """
    conn.execute(
        """
        UPDATE agents
           SET retired_at = :now, updated_at = :now
         WHERE id = :id AND retired_at IS NULL AND NOT EXISTS (SELECT 1 FROM teams WHERE leader = :id)
        """,
        {"id": agent_id, "now": now_ms},
    )
    if conn.changes() == 0:
        _check_leads_no_team(conn, agent_id)
        raise WrongState(f"agent {agent_id!r} is retired already")
    conn.execute("DELETE FROM wirings WHERE agent = :id", {"id": agent_id})
    conn.execute("DELETE FROM destinations WHERE agent = :id", {"id": agent_id})
    conn.execute("DELETE FROM destinations WHERE target_agent = :id", {"id": agent_id})
    conn.execute("DELETE FROM team_members WHERE agent = :id", {"id": agent_id})
    conn.execute(
        "UPDATE pairings SET status = 'revoked', updated_at = :now WHERE status = 'open' AND agent = :id",
        {"id": agent_id, "now": now_ms},
    )


def delete(conn: apsw.Connection, agent_id: str) -> None:
    """Delete an agent that has no sessions, with its wirings.

    Raises:
        WrongState: it has sessions, or leads a team.
    """
    conn.execute(
        """
        DELETE FROM agents
         WHERE id = :id
           AND NOT EXISTS (SELECT 1 FROM sessions WHERE agent = :id)
           AND NOT EXISTS (SELECT 1 FROM teams WHERE leader = :id)
        """,
        {"id": agent_id},
    )
    if conn.changes() == 0:
        if has_history(conn, agent_id):
            raise WrongState(f"agent {agent_id!r} has sessions, and messages that name it: it can't be deleted")
        _check_leads_no_team(conn, agent_id)


def _check_leads_no_team(conn: apsw.Connection, agent_id: str) -> None:
    team = scalar(conn, "SELECT id FROM teams WHERE leader = :id", {"id": agent_id})
    if team is not None:
        raise WrongState(f"agent {agent_id!r} leads the team {team!r}: give that another leader first")
