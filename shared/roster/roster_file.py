"""``postroom.toml``: the first agents and teams of a new database, and how a database differs from the file later.

::

    default = "assistant"            # gets the messages that name no agent; if missing, the first agent of the file

    [agents.assistant]               # the table's name is the agent's id; the keys are the fields of AgentChange
    provider = "echo"
    instructions = "Be brief."

    [teams.dev]                      # the fields of TeamChange
    leader = "coder"
    agents = ["coder", "reviewer"]

    [accounts."telegram.sales"]      # a further bot or app; its tokens are settings, never in the file
    agent = "coder"

The file is read when a database has no agent yet; one transaction stores all of it or nothing. From then on the
database is the truth: the file is compared with it, and applied on request. A setting that the file does not name is
not compared, and neither is an account that it does not name.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.core.text.validation import reason
from shared.db.roster import accounts as stored_accounts
from shared.db.roster import agents, teams
from shared.roster import accounts, agents_and_teams
from shared.roster.agents_and_teams import AgentChange, TeamChange

DEEPEST = 100  # levels of nested tables and lists; Python and SQLite read a thousand


class AccountChange(BaseModel):
    """An account in the file. *agent*: whose bot it is; without it, of all agents."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    agent: str | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    default: str | None = None
    agents: dict[str, AgentChange] = {}
    teams: dict[str, TeamChange] = {}
    accounts: dict[str, AccountChange] = {}


class Roster(NamedTuple):
    """Agents and teams: their settings by id, and the id of the default agent.

    From a file, only what it names, in its order; from a database, everything.
    """

    agents: Mapping[str, Mapping[str, Any]]
    teams: Mapping[str, Mapping[str, Any]]
    default: str | None
    accounts: Mapping[str, Mapping[str, Any]] = {}


class RosterDifference(NamedTuple):
    """One difference between file and database.

    Args:
        table: the table of the file, such as ``agents.coder``; empty for the top level.
        field: the setting; empty where only one of the two has the whole agent or team.
        file: the value in the file; None where it has none.
        database: the value in the database; None where it has none.
    """

    table: str
    field: str
    file: Any
    database: Any

    @property
    def where(self) -> str:
        """``agents.coder.model``."""
        return ".".join(part for part in (self.table, self.field) if part)


def read(path: Path) -> Roster:
    """Read and check the file.

    Raises:
        ConfigInvalid: the file is wrong; the message names file, table and key of every problem.
    """
    found = _read(path)
    _refuse(path, found.problems)
    return found.named


class _Found(NamedTuple):
    """The content of a file.

    Args:
        named: without the invalid tables.
        problems: one sentence each.
        agent_ids: those that the file names, valid or not.
    """

    named: Roster
    problems: list[str]
    agent_ids: set[str]


def _read(path: Path) -> _Found:
    """Read the file, and find its problems.

    Raises:
        ConfigInvalid: the file can't be read at all.
    """
    tables = _parse(path)
    found, problems = _valid_part(tables)
    settings = {}
    for id_, agent in found.agents.items():
        try:
            settings[id_] = _settings(id_, agent)
        except ConfigInvalid as error:
            problems.append(str(error))
    ids = set(tables["agents"]) if isinstance(tables.get("agents"), dict) else set()
    default = found.default if found.default is not None else next(iter(found.agents), None)
    if default is not None and default not in ids:
        problems.append(f"default: there is no table [agents.{default}]")
    teams_named = {id_: team.model_dump(exclude_unset=True) for id_, team in found.teams.items()}
    accounts_named = {name: account.model_dump() for name, account in found.accounts.items()}
    return _Found(Roster(settings, teams_named, default, accounts_named), problems, ids)


def _parse(path: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigInvalid(f"{path} does not exist: write it, or take its name out of POSTROOM_CONFIG") from None
    except OSError as error:
        raise ConfigInvalid(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigInvalid(f"{path} is not UTF-8: save it as UTF-8, as TOML requires") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigInvalid(_too_deep(path)) from None
    if _depth(tables) > DEEPEST:
        raise ConfigInvalid(_too_deep(path))
    return tables


def _too_deep(path: Path) -> str:
    return f"{path} has values that are nested more than {DEEPEST} deep: no agent or team needs that"


def _depth(value: Any) -> int:
    """How deep tables and lists are nested, without recursion."""
    depth, level = 0, [value]
    while level and depth <= DEEPEST:
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [each for values in inner for each in values]
        depth += 1
    return depth


def _valid_part(tables: dict[str, Any]) -> tuple[_File, list[str]]:
    """The file without its invalid keys and tables; and a sentence for each problem in them."""
    try:
        return _File.model_validate(tables), []
    except ValidationError as error:
        problems = error.errors()
    rest = {name: dict(value) if isinstance(value, dict) else value for name, value in tables.items()}
    for problem in problems:
        top, *inner = problem["loc"]
        if inner and isinstance(rest.get(str(top)), dict):
            rest[str(top)].pop(inner[0], None)
        else:
            rest.pop(str(top), None)
    return _File.model_validate(rest), [_sentence(problem) for problem in problems]


def _refuse(path: Path, problems: Sequence[str]) -> None:
    if problems:
        raise ConfigInvalid("; ".join(f"{path}: {problem}" for problem in problems))


def _settings(agent_id: str, agent: AgentChange) -> dict[str, Any]:
    settings = agent.model_dump(exclude_unset=True)
    if "default" in settings:
        raise ConfigInvalid(f'[agents.{agent_id}] default: say it at the top of the file: default = "{agent_id}"')
    try:
        json.dumps(settings.get("config"))
    except TypeError:
        raise ConfigInvalid(
            f"[agents.{agent_id}] config: it is stored as JSON, which has no dates: quote them"
        ) from None
    return as_stored(agent_id, settings)


def as_stored(agent_id: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """An agent's settings as the database stores them: the default folder and an empty model are None."""
    usual = {"folder": agent_id, "model": ""}  # TOML has no null
    return {name: None if value == usual.get(name) else value for name, value in settings.items()}


_TABLES: Mapping[str, type[BaseModel]] = {"agents": AgentChange, "teams": TeamChange, "accounts": AccountChange}


def _sentence(problem: ErrorDetails) -> str:
    """``[agents.coder] concurrency: should be …``."""
    where, text = problem["loc"], reason(problem)
    is_in_table = len(where) > 1
    table = [f"[{'.'.join(map(str, where[:2]))}]"] if is_in_table else []
    key = ".".join(map(str, where[2 if is_in_table else 0 :]))
    if problem["type"] == "extra_forbidden":
        known = _TABLES.get(str(where[0]), AgentChange).model_fields
        top = ("default", "[agents.ID]", "[teams.ID]", "[accounts.NAME]")
        names = (name for name in known if name != "default") if is_in_table else top
        text = f"there is no such setting; known: {', '.join(names)}"
    return f"{' '.join([*table, *([key] if key else [])])}: {text}"


def create_first_agents(conn: apsw.Connection, path: Path | None, *, timezone: str, now_ms: int) -> None:
    """Create the first agents and teams: those of the file, or one agent that needs no account.

    Args:
        path: the file, if there is one.
        timezone: the time zone of each agent for which the file names none.

    Raises:
        ConfigInvalid: the file is wrong; the message names table and key, and the caller must roll back.
    """
    if path is not None:
        _create(conn, path, timezone=timezone, now_ms=now_ms)
    agents.ensure_default(conn, timezone=timezone, now_ms=now_ms)


def _create(conn: apsw.Connection, path: Path, *, timezone: str, now_ms: int) -> None:
    """Create what the file names. It tries everything, so that one error tells all problems; the caller rolls back."""
    named, problems, agent_ids = _read(path)
    created = set()
    for id_, settings in named.agents.items():
        change = {**settings, "default": True} if id_ == named.default else settings
        try:
            agents_and_teams.save_agent(conn, id_, change, timezone=timezone, now_ms=now_ms)
            created.add(id_)
        except (ConfigInvalid, WrongState) as error:
            problems.append(_in_table("agent", id_, error))
    broken = agent_ids - created
    for id_, settings in named.teams.items():
        try:
            agents_and_teams.save_team(conn, id_, _without(broken, settings), now_ms=now_ms)
        except (ConfigInvalid, WrongState) as error:
            problems.append(_in_table("team", id_, error))
    for name, settings in named.accounts.items():
        try:
            accounts.declare(conn, name, settings["agent"], now_ms=now_ms)
        except (ConfigInvalid, NotFound) as error:
            if settings["agent"] not in broken:
                problems.append(f"[accounts.{name}] {error}")
    _refuse(path, problems)


def _without(broken: set[str], team: Mapping[str, Any]) -> dict[str, Any]:
    """The team without the agents that were refused, so that only its own problems are told."""
    members = [each for each in team.get("agents", []) if each not in broken]
    fields = {**team, "agents": members} if members else dict(team)
    return {name: value for name, value in fields.items() if name != "leader" or value not in broken}


def _in_table(kind: str, id_: str, error: Exception) -> str:
    """The error with the table of the file."""
    return f"[{kind}s.{id_}] {str(error).removeprefix(f'{kind} {id_!r}: ')}"


def read_database(conn: apsw.Connection) -> Roster:
    """The agents and teams of the database."""
    default = agents.default(conn)
    return Roster(
        {agent.id: agents.settings(agent) for agent in agents.every(conn)},
        {
            team.id: {"name": team.name, "leader": team.leader, "agents": list(team.agents)}
            for team in teams.every(conn)
        },
        default.id if default else None,
        {each.name: {"agent": each.agent} for each in stored_accounts.every(conn)},
    )


def differences(file: Roster, database: Roster) -> list[RosterDifference]:
    """The settings that differ, and the agents and teams that only the database has; agents come first."""
    found = [*_of_kind("agents", file.agents, database.agents), *_of_kind("teams", file.teams, database.teams)]
    known = {name: account for name, account in database.accounts.items() if name in file.accounts}
    found += _of_kind("accounts", file.accounts, known)
    if file.default not in (None, database.default):
        found.append(RosterDifference("", "default", file.default, database.default))
    return found


def _of_kind(
    kind: str, file: Mapping[str, Mapping[str, Any]], database: Mapping[str, Mapping[str, Any]]
) -> Iterator[RosterDifference]:
    for id_, said in file.items():
        stored = database.get(id_)
        if stored is None:
            yield RosterDifference(f"{kind}.{id_}", "", dict(said), None)
            continue
        for name, value in said.items():
            if name in stored and value != stored[name]:
                yield RosterDifference(f"{kind}.{id_}", name, value, stored[name])
    for id_ in sorted(database.keys() - file.keys()):
        yield RosterDifference(f"{kind}.{id_}", "", None, dict(database[id_]))
