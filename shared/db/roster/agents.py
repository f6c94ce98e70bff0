"""Agents: identity, folder, provider, limits.

An agent that has sessions when it is deleted is *retired* instead: its messages go on naming it, and everything else
treats it as absent.
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
           turn_timeout_ms, batch_size, retired_at, idle_timeout_ms, tool_timeout_ms, output_limit_bytes,
           memory_limit_mb, resume_spoken, models, chosen_provider, drafts
      FROM agents
"""


RESERVED = ("operator", "user")  # the names of a person in the mailbox and in a team's room


@dataclass(frozen=True, slots=True)
class Agent:
    """A row of ``agents``. A limit, or *batch_size*, is None where the settings decide.

    *resume_spoken*: a turn that has spoken and fails goes on once, see ``core.failures``. *drafts*: people see a
    preview of its answer while its turn runs, where the platform has previews.
    """

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
    idle_timeout_ms: int | None = None
    tool_timeout_ms: int | None = None
    output_limit_bytes: int | None = None
    memory_limit_mb: int | None = None
    resume_spoken: bool = False
    models: tuple[str, ...] = ()
    chosen_provider: str | None = None
    drafts: bool = False


_FIELDS = tuple(field.name for field in fields(Agent))


def _agent(row: Sequence[Any]) -> Agent:
    values = dict(zip(_FIELDS, row, strict=True))
    values["config"] = json.loads(values["config"])
    values["is_default"] = bool(values["is_default"])
    values["resume_spoken"] = bool(values["resume_spoken"])
    values["drafts"] = bool(values["drafts"])
    values["models"] = tuple(json.loads(values["models"]))
    return Agent(**values)


def get(conn: apsw.Connection, agent_id: str) -> Agent | None:
    """The agent with this id, or None; None for a retired agent too."""
    agent = find(conn, agent_id)
    return agent if agent is not None and agent.retired_at is None else None


def find(conn: apsw.Connection, agent_id: str) -> Agent | None:
    """The agent with this id, retired or not, or None."""
    found = rows(conn, _SELECT + " WHERE id = :id", {"id": agent_id})
    return _agent(found[0]) if found else None


def every(conn: apsw.Connection) -> list[Agent]:
    """All agents that are not retired, by id."""
    return [_agent(row) for row in rows(conn, _SELECT + " WHERE retired_at IS NULL ORDER BY id")]


def every_with_retired(conn: apsw.Connection) -> list[Agent]:
    """All agents, retired ones included, by id."""
    return [_agent(row) for row in rows(conn, _SELECT + " ORDER BY id")]


def default(conn: apsw.Connection) -> Agent | None:
    """The agent that gets the messages that name no agent."""
    found = rows(conn, _SELECT + " WHERE is_default = 1")
    return _agent(found[0]) if found else None


def ensure_default(conn: apsw.Connection, *, timezone: str, now_ms: int) -> None:
    """Create the echo agent, which needs no account, in a database without agents."""
    conn.execute(
        """
        INSERT INTO agents (id, name, provider, timezone, is_default, created_at, updated_at)
        SELECT :id, 'Assistant', 'echo', :timezone, 1, :now, :now
         WHERE NOT EXISTS (SELECT 1 FROM agents)
        """,
        {"id": DEFAULT_AGENT, "timezone": timezone, "now": now_ms},
    )


def save(conn: apsw.Connection, agent: Agent, *, now_ms: int) -> None:
    """Create the agent, or replace all of its settings and bring it back if it is retired. The default stays.

    Raises:
        ConfigInvalid: the id is reserved for people.
    """
    if agent.id in RESERVED:
        raise ConfigInvalid(f"an agent can't have the id {agent.id!r}, which is reserved for people: take another id")
    conn.execute(
        """
        INSERT INTO agents (id, name, provider, model, folder, instructions, config, concurrency, timezone,
                            turn_timeout_ms, batch_size, idle_timeout_ms, tool_timeout_ms, output_limit_bytes,
                            memory_limit_mb, resume_spoken, models, drafts, created_at, updated_at)
        VALUES (:id, :name, :provider, :model, :folder, :instructions, :config, :concurrency, :timezone,
                :turn_timeout_ms, :batch_size, :idle_timeout_ms, :tool_timeout_ms, :output_limit_bytes,
                :memory_limit_mb, :resume_spoken, :models, :drafts, :now, :now)
        ON CONFLICT (id) DO UPDATE
           SET name = excluded.name, provider = excluded.provider, model = excluded.model, folder = excluded.folder,
               instructions = excluded.instructions, config = excluded.config, concurrency = excluded.concurrency,
               timezone = excluded.timezone, turn_timeout_ms = excluded.turn_timeout_ms,
               batch_size = excluded.batch_size, idle_timeout_ms = excluded.idle_timeout_ms,
               tool_timeout_ms = excluded.tool_timeout_ms, output_limit_bytes = excluded.output_limit_bytes,
               memory_limit_mb = excluded.memory_limit_mb, resume_spoken = excluded.resume_spoken,
               models = excluded.models, drafts = excluded.drafts,
               chosen_provider = CASE WHEN excluded.provider = agents.provider THEN agents.chosen_provider END,
               retired_at = NULL, updated_at = excluded.updated_at
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
            "idle_timeout_ms": agent.idle_timeout_ms,
            "tool_timeout_ms": agent.tool_timeout_ms,
            "output_limit_bytes": agent.output_limit_bytes,
            "memory_limit_mb": agent.memory_limit_mb,
            "resume_spoken": int(agent.resume_spoken),
            "drafts": int(agent.drafts),
            "models": json.dumps(agent.models),
            "now": now_ms,
        },
    )


def choose_provider(conn: apsw.Connection, agent_id: str, provider: str, *, now_ms: int) -> bool:
    """Let the agent, whose provider is ``auto``, use *provider* from now on; False: it has one already."""
    conn.execute(
        """
        UPDATE agents
           SET chosen_provider = :provider, updated_at = :now
         WHERE id = :id AND provider = 'auto' AND chosen_provider IS NULL
        """,
        {"id": agent_id, "provider": provider, "now": now_ms},
    )
    return conn.changes() == 1


def make_default(conn: apsw.Connection, agent_id: str, *, now_ms: int) -> None:
    """Make this agent the default, in place of the present one."""
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
    """How many of the agent's messages are pending, processing or paused; context is not counted."""
    count: int = scalar(conn, COUNT_OPEN_MESSAGES, {"agent": agent_id})
    return count


def has_history(conn: apsw.Connection, agent_id: str) -> bool:
    """Whether the agent has sessions, and so perhaps messages."""
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
