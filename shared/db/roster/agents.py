"""Agents: identity, folder, provider, limits.

An agent that has sessions when it is deleted is *retired* instead: its messages go on naming it, and everything else
treats it as absent.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import apsw
from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import AfterValidator

from shared.core import sound_makers
from shared.core.errors import ConfigInvalid, WrongState
from shared.core.row_settings import RowSetting, settings_of
from shared.db.engine.columns import Columns, bound, listed, replaced
from shared.db.engine.connection import rows, scalar

MemoryWriters = Literal["off", "apart", "admins", "known"]
DEFAULT_AGENT = "assistant"
RESERVED = ("operator", "user")  # the names of a person in the mailbox and in a team's room
_WEEK_MS = 7 * 24 * 60 * 60 * 1000
_YEAR_MS = 366 * 24 * 60 * 60 * 1000


def _limit(help_: str, label: str, variable: str) -> RowSetting:
    """A setting that the environment decides for an agent without its own."""
    return RowSetting(help_, label, f"none: as {variable} says", unset=f"`{variable}`")


@dataclass(frozen=True, slots=True)
class Agent:
    """A row of ``agents``, and the one list of an agent's settings: see :mod:`shared.core.row_settings`.

    A new setting is its column (a migration) and its line here; REST, the command line, ``postroom.toml`` and the docs
    have it from here. A limit is None where the settings of the environment decide.
    """

    id: str
    name: Annotated[str, MinLen(1), MaxLen(200), RowSetting("The name that people read.", "name", unset="its id")]
    provider: Annotated[
        str,
        RowSetting("The program that runs its turns; an unknown name is refused with a list.", "provider"),
    ] = "echo"
    model: Annotated[
        str | None,
        MaxLen(200),
        RowSetting('The model; "" means the default of its provider.', "model", unset="its provider's own"),
    ] = None
    instructions: Annotated[str, RowSetting("The instructions at the beginning of every turn.", "instructions")] = ""
    config: Annotated[dict[str, Any], RowSetting("A JSON object for its provider.", "config")] = field(
        default_factory=dict
    )
    folder: Annotated[
        str | None,
        RowSetting(
            'Its working folder, below the folder of all agents; "" means its id.',
            "folder",
            "where it works, below the agents' folder; none: its id",
            unset="its id",
        ),
    ] = None
    concurrency: Annotated[int, Ge(1), Le(1000), RowSetting("How many turns may run at once.", "turns at once")] = 1
    timezone: Annotated[
        str, RowSetting("Its time zone, such as Europe/Zurich.", "time zone", unset="`POSTROOM_TIMEZONE`")
    ] = "UTC"
    turn_timeout_ms: Annotated[
        int | None,
        Ge(100),
        Le(_WEEK_MS),
        _limit(
            'The time limit of a turn, such as 15m; "" means the default of the settings.',
            "time limit of a turn",
            "POSTROOM_TURN_TIMEOUT_MS",
        ),
    ] = None
    idle_timeout_ms: Annotated[
        int | None,
        Ge(100),
        Le(_WEEK_MS),
        _limit(
            'How long its program may say nothing, such as 5m; "" means the default.',
            "time limit of silence",
            "POSTROOM_IDLE_TIMEOUT_MS",
        ),
    ] = None
    tool_timeout_ms: Annotated[
        int | None,
        Ge(100),
        Le(_WEEK_MS),
        _limit(
            'The time limit of one tool call of its program; "" means the default.',
            "time limit of a tool call",
            "POSTROOM_TOOL_TIMEOUT_MS",
        ),
    ] = None
    output_limit_bytes: Annotated[
        int | None,
        Ge(1024),
        Le(2**40),
        _limit(
            'The bytes that its program may write in a turn; "" means the default.',
            "output limit",
            "POSTROOM_OUTPUT_LIMIT_BYTES",
        ),
    ] = None
    memory_limit_mb: Annotated[
        int | None,
        Ge(16),
        Le(2**30),
        _limit(
            'The memory that its program may use, in MB; "" means the default.',
            "memory limit",
            "POSTROOM_MEMORY_LIMIT_MB",
        ),
    ] = None
    disk_limit_mb: Annotated[
        int | None,
        Ge(1),
        Le(2**30),
        _limit(
            'The disk space that the folders of a session may use, in MB; "" means the default.',
            "disk limit",
            "POSTROOM_DISK_LIMIT_MB",
        ),
    ] = None
    file_retention_ms: Annotated[
        int | None,
        Ge(60_000),
        Le(_YEAR_MS),
        _limit(
            'How long files stay in its inboxes and outboxes, such as 2d; "" means the default.',
            "files kept for",
            "POSTROOM_FILE_RETENTION_MS",
        ),
    ] = None
    files_limit_mb: Annotated[
        int | None,
        Ge(1),
        Le(2**30),
        _limit(
            'The disk space that all its inboxes and outboxes may use, in MB; "" means the default.',
            "limit of files",
            "POSTROOM_FILES_LIMIT_MB",
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        Ge(1),
        Le(1000),
        _limit(
            'How many messages one turn takes; "" means the default of the settings.',
            "messages a turn",
            "POSTROOM_BATCH_SIZE",
        ),
    ] = None
    models: Annotated[
        list[Annotated[str, MinLen(1), MaxLen(200)]],
        MaxLen(10),
        RowSetting(
            'Models in its place where it can\'t answer, such as "sonnet,haiku"; "" means none.',
            "models in its place",
            "used in this order where its model can't answer",
        ),
    ] = field(default_factory=list)
    resume_spoken: Annotated[
        bool,
        RowSetting(
            "Let a turn continue once that said something and then failed.",
            "continues after it spoke and failed",
            "a turn that has said something and then fails continues once by itself",
            yes="once",
        ),
    ] = False
    drafts: Annotated[
        bool,
        RowSetting(
            "Show people a preview while the agent works, where the platform has one.",
            "previews while it works",
            "people see a preview of the answer, with a stop button, where the platform has previews",
        ),
    ] = False
    progress: Annotated[
        bool,
        RowSetting(
            "Tell in the chat what the agent does while it works, in one line that changes and is removed at the end.",
            "shows what it does",
            "one line in the chat says what the agent does; it changes, and is removed when the turn is over",
        ),
    ] = False
    transcriber: Annotated[
        str | None,
        MaxLen(1000),
        AfterValidator(sound_makers.checked_transcriber),
        _limit(
            "What makes text of voice messages: HOST/MODEL such as openai/whisper-1, a command with {sound}, or "
            '"none"; "" means the default.',
            "makes text of voice messages",
            "POSTROOM_TRANSCRIBER",
        ),
    ] = None
    speaker: Annotated[
        str | None,
        MaxLen(1000),
        AfterValidator(sound_makers.checked_speaker),
        _limit(
            "What speaks for it: HOST/MODEL#VOICE such as openai/tts-1#nova, a command that makes sound of its input, "
            'or "none"; "" means the default.',
            "speaks for it",
            "POSTROOM_SPEAKER",
        ),
    ] = None
    memory: Annotated[
        MemoryWriters,
        RowSetting(
            "Whose turns may write what all its conversations with known people read; apart: each conversation has a "
            "memory of its own; off: none.",
            "memory",
        ),
    ] = "known"
    is_default: bool = False
    retired_at: int | None = None
    chosen_provider: str | None = None


SETTINGS = settings_of(Agent)
_COLUMNS = Columns(Agent)
_SELECT = f"""
    SELECT {_COLUMNS.selected}
      FROM agents
"""
# The default agent stays the default.
_SAVE = f"""
    INSERT INTO agents (id, {listed(SETTINGS)}, created_at, updated_at)
    VALUES (:id, {bound(SETTINGS)}, :now, :now)
    ON CONFLICT (id) DO UPDATE
       SET {replaced(SETTINGS)},
           chosen_provider = CASE WHEN excluded.provider = agents.provider THEN agents.chosen_provider END,
           retired_at = NULL, updated_at = excluded.updated_at
"""


def settings(agent: Agent) -> dict[str, Any]:
    """The agent's settings, by name."""
    return {name: getattr(agent, name) for name in SETTINGS}


def get(conn: apsw.Connection, agent_id: str) -> Agent | None:
    """The agent with this id, or None; None for a retired agent too."""
    agent = find(conn, agent_id)
    return agent if agent is not None and agent.retired_at is None else None


def find(conn: apsw.Connection, agent_id: str) -> Agent | None:
    """The agent with this id, retired or not, or None."""
    found = rows(conn, _SELECT + " WHERE id = :id", {"id": agent_id})
    return _COLUMNS.read(found[0]) if found else None


def every(conn: apsw.Connection) -> list[Agent]:
    """All agents that are not retired, by id."""
    return [_COLUMNS.read(row) for row in rows(conn, _SELECT + " WHERE retired_at IS NULL ORDER BY id")]


def every_with_retired(conn: apsw.Connection) -> list[Agent]:
    """All agents, retired ones included, by id."""
    return [_COLUMNS.read(row) for row in rows(conn, _SELECT + " ORDER BY id")]


def default(conn: apsw.Connection) -> Agent | None:
    """The agent that gets the messages that name no agent."""
    found = rows(conn, _SELECT + " WHERE is_default = 1")
    return _COLUMNS.read(found[0]) if found else None


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
    conn.execute(_SAVE, {**_COLUMNS.bindings(agent), "now": now_ms})


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
