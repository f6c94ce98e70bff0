"""Creates and changes agents and teams; ``shared.rest.admin.retire`` deletes agents.

REST, the command line, the operator's file and the action ``create_agent`` all come here. A field that a change does
not name stays. The caller owns the transaction.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, TypeVar

import apsw
import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.core.text.validation import reason, where
from shared.core.time import cron
from shared.db.roster import agent_pauses, agents, teams
from shared.db.roster.agents import Agent
from shared.db.roster.destinations import slug
from shared.db.roster.teams import Team
from shared.roster.changes import takes_settings_of, without_defaults

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_LONGEST_ID = 64
_LONGEST_FOLDER = 200
MOST_MEMBERS = 100


@takes_settings_of(Agent)
class _AgentSettings(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        str_max_length=100_000,
        json_schema_extra=without_defaults,
        defer_build=True,  # most functions change no agent, and would build its validator at each start
    )


class AgentChange(_AgentSettings):
    """A change of an agent. A field that is not named stays, whatever its default here."""

    share_folder: bool = Field(default=False, description="the folder may be, or lie in, one that another agent has")
    default: bool = Field(default=False, description="it answers where nobody is named; exactly one agent does")


class TeamChange(BaseModel):
    """A change of a team. A field that is not named stays. A new team needs *agents*; the first leads it by default."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=without_defaults, defer_build=True)

    name: str = Field(default="", min_length=1, max_length=200)
    agents: list[str] = Field(default=[], min_length=1, max_length=MOST_MEMBERS)
    leader: str = ""


class AgentSave(msgspec.Struct, frozen=True):
    """The agent as it is now. *is_new*: no agent had this id before, not even a retired one."""

    agent: Agent
    is_new: bool


def save_agent(
    conn: apsw.Connection, agent_id: str, changes: Mapping[str, Any], *, timezone: str = "UTC", now_ms: int
) -> AgentSave:
    """Create the agent, or change the named fields. A retired agent comes back as it was, with the changes.

    Args:
        changes: fields of :class:`AgentChange`.
        timezone: the time zone of a new agent whose changes name none.

    Raises:
        ConfigInvalid: a field is invalid; the message says which, and why.
        WrongState: the default agent can't give that up: make another agent the default.
    """
    what = f"agent {agent_id!r}"
    change = _checked(AgentChange, changes, what).model_dump(exclude_unset=True)
    _check_id(agent_id, "an agent's id")
    _check_name(what, change)
    _check_config(what, change)
    before = agents.find(conn, agent_id)
    is_there = before is not None and before.retired_at is None
    is_sharing, is_default = change.pop("share_folder", False), change.pop("default", None)
    if change.get("folder") is not None:
        change["folder"] = _folder(agent_id, change["folder"])
    after = replace(before or Agent(agent_id, agent_id, timezone=timezone), **change)
    if not is_there and teams.get(conn, agent_id) is not None:
        raise ConfigInvalid(f"{what}: a team has this id, and @{agent_id} can't name both; take another id")
    if not is_there or not {"provider", "config"}.isdisjoint(change):
        _check_provider(what, after)
    if not is_there or "timezone" in change:
        cron.validate("* * * * *", after.timezone)
    if not is_sharing and (not is_there or "folder" in change):
        _check_folder_is_free(conn, after)
    if is_default is False and after.is_default:
        raise WrongState(f"{what} is the default: make another agent the default in its place")
    agents.save(conn, after, now_ms=now_ms)
    if before is not None and _mended(before, after):
        agent_pauses.resume_mended(conn, agent_id, now_ms=now_ms)
    if is_default:
        agents.make_default(conn, agent_id, now_ms=now_ms)
    saved = agents.get(conn, agent_id)
    assert saved is not None  # noqa: S101 - it was saved above
    return AgentSave(saved, is_new=before is None)


def _mended(before: Agent, after: Agent) -> bool:
    """Whether what its turns run with has changed, so that a paused agent may work now."""
    return (before.provider, before.model, before.config) != (after.provider, after.model, after.config)


def known_agent(conn: apsw.Connection, agent_id: str) -> Agent:
    """The agent.

    Raises:
        NotFound: no agent has this id, or it is retired; the message lists the agents.
    """
    agent = agents.get(conn, agent_id)
    if agent is None:
        known = ", ".join(each.id for each in agents.every(conn))
        raise NotFound(f"agent {agent_id!r} not found; known: {known or 'none'}")
    return agent


def free_id(conn: apsw.Connection, name: str) -> str:
    """An unused id made from a name: ``Code Review`` becomes ``code-review``."""
    stem = slug(name)[: _LONGEST_ID - 4].rstrip("-") or "agent"
    taken = {
        *agents.RESERVED,
        *(each.id for each in agents.every_with_retired(conn)),
        *(each.id for each in teams.every(conn)),
    }
    number = 1
    while (found := stem if number == 1 else f"{stem}-{number}") in taken:
        number += 1
    return found


def save_team(conn: apsw.Connection, team_id: str, changes: Mapping[str, Any], *, now_ms: int) -> Team:
    """Create the team, or change the named fields. An agent that is named twice is a member once.

    Args:
        changes: fields of :class:`TeamChange`.

    Raises:
        ConfigInvalid: a field is invalid; the message says which, and why.
    """
    what = f"team {team_id!r}"
    change = _checked(TeamChange, changes, what).model_dump(exclude_unset=True)
    _check_name(what, change)
    before = teams.get(conn, team_id)
    members = tuple(dict.fromkeys(change.get("agents", before.agents if before else ())))
    if not members:
        raise ConfigInvalid(f"{what}: agents: a new team needs at least one")
    leader = change.get("leader", before.leader if before else members[0])
    if agents.get(conn, team_id) is not None:
        raise ConfigInvalid(f"{what}: an agent has this id, and @{team_id} can't name both; take another id")
    team = Team(team_id, change.get("name", before.name if before else team_id), leader, members)
    teams.save(conn, team, now_ms=now_ms)
    return team


def delete_team(conn: apsw.Connection, team_id: str) -> None:
    """Delete the team. Its agents and the messages of its room stay.

    Raises:
        NotFound: there is no such team.
    """
    known_team(conn, team_id)
    teams.delete(conn, team_id)


def known_team(conn: apsw.Connection, team_id: str) -> Team:
    """The team.

    Raises:
        NotFound: no team has this id; the message lists the teams.
    """
    team = teams.get(conn, team_id)
    if team is None:
        known = ", ".join(each.id for each in teams.every(conn))
        raise NotFound(f"team {team_id!r} not found; known: {known or 'none'}")
    return team


Change = TypeVar("Change", bound=BaseModel)


def _checked(model: type[Change], changes: Mapping[str, Any], what: str) -> Change:
    try:
        return model.model_validate(dict(changes))
    except ValidationError as error:
        problems = (f"{where(each)}: {_sentence(model, each)}" for each in error.errors())
        raise ConfigInvalid(f"{what}: {'; '.join(problems)}") from None


def _sentence(model: type[BaseModel], problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        return f"there is no such setting; known: {', '.join(model.model_fields)}"
    return reason(problem)


def _check_id(id_: str, what: str) -> None:
    if not _ID.fullmatch(id_):
        raise ConfigInvalid(f"{what} is 1 to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit")


def _check_name(what: str, change: Mapping[str, Any]) -> None:
    """Check that a name fits in one line with other text."""
    name = change.get("name")
    if name is not None and (name != name.strip() or not name.isprintable()):
        raise ConfigInvalid(f"{what}: name: it must be one line of visible characters, without spaces around it")


def _check_config(what: str, change: Mapping[str, Any]) -> None:
    try:
        json.dumps(change.get("config"), allow_nan=False)
    except (TypeError, ValueError):
        raise ConfigInvalid(f"{what}: config: it is stored as JSON, which has no dates, NaN or infinity") from None


def _check_provider(what: str, agent: Agent) -> None:
    from shared.agents import registry as providers  # late: most functions change no agent

    if agent.provider not in (*providers.NAMES, *providers.OTHER_NAMES, providers.AUTO):
        known = ", ".join(sorted((*providers.NAMES, providers.AUTO)))
        raise ConfigInvalid(f"{what}: unknown provider {agent.provider!r}; known: {known}")
    if agent.provider != providers.AUTO:
        providers.get(agent.provider).check(agent.config)
        return
    chosen = (agent.chosen_provider,) if agent.chosen_provider is not None else providers.AUTO_ORDER
    for name in chosen if agent.config else ():  # an empty one fits each; to import them takes time
        try:
            providers.get(name).check(agent.config)
        except ConfigInvalid as error:
            raise ConfigInvalid(f"{what}: provider 'auto' may choose {name!r}, and the {error}") from None


def _folder(agent_id: str, given: str) -> str | None:
    """The folder as it is stored: normalised, and None where it is the agent's id."""
    folder = PurePosixPath(given)
    if not given or given != given.strip() or not given.isprintable() or len(given) > _LONGEST_FOLDER:
        raise ConfigInvalid(f"agent {agent_id!r}: folder: a path of 1 to {_LONGEST_FOLDER} visible characters")
    if folder.is_absolute() or ".." in folder.parts or not folder.parts:
        raise ConfigInvalid(f"agent {agent_id!r}: folder: {given!r} is not below the agents' folder")
    return None if str(folder) == agent_id else str(folder)


def _check_folder_is_free(conn: apsw.Connection, agent: Agent) -> None:
    """Check that no other agent has the same files, unless sharing is asked for."""
    mine = PurePosixPath(agent.folder or agent.id)
    for other in agents.every_with_retired(conn):
        theirs = PurePosixPath(other.folder or other.id)
        if other.id != agent.id and (mine.is_relative_to(theirs) or theirs.is_relative_to(mine)):
            gone = " (retired, and may come back)" if other.retired_at is not None else ""
            raise ConfigInvalid(
                f"agent {agent.id!r}: folder: {str(mine)!r} and {str(theirs)!r} of agent {other.id!r}{gone} overlap: "
                "take another folder, or set share_folder if both agents should have the same files"
            )
