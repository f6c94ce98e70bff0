"""The agent that a text names: ``@agent text``, ``@team text`` (the team's leader), or the name of either.

The first token alone decides, in any case. A text from the API keeps the prefix; a text from a chat loses it.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

_PREFIX = re.compile(r"@(\S+)\s+")
_MARKS = ",:"  # may follow a name, as in a letter to a person


class TeamName(msgspec.Struct, frozen=True):
    """What addressing needs to know of a team."""

    name: str
    leader: str


class Addressee(NamedTuple):
    """The id of the agent that a text names, and the text without the prefix."""

    agent: str
    rest: str


def find(text: str, agents: Mapping[str, str], teams: Mapping[str, TeamName]) -> Addressee | None:
    """The agent that the text begins by naming, or None. Agents come before teams, and ids before names.

    Args:
        agents: id to name.
        teams: by id.
    """
    found = _PREFIX.match(text)
    if found is None:
        return None
    token = found[1].lower()
    agent = _agent(token, agents, teams) or _agent(token.rstrip(_MARKS), agents, teams)
    return Addressee(agent, text[found.end() :]) if agent is not None else None


def find_behind_bot(text: str, agents: Mapping[str, str], teams: Mapping[str, TeamName]) -> Addressee | None:
    """Like :func:`find`, also behind an unknown ``@name``: in a group the text has to name the bot first."""
    direct = find(text, agents, teams)
    found = None if direct is not None else _PREFIX.match(text)
    return direct if found is None else find(text[found.end() :], agents, teams)


def find_id(text: str, agents: Mapping[str, str], teams: Mapping[str, TeamName]) -> str | None:
    """The id of the agent that a text from the API begins by naming, or None; the whole token, as TinyAGI has it."""
    found = _PREFIX.match(text)
    return _agent(found[1].lower(), agents, teams) if found else None


def _agent(token: str, agents: Mapping[str, str], teams: Mapping[str, TeamName]) -> str | None:
    if token in agents:
        return token
    leaders = {team_id: team.leader for team_id, team in teams.items()}
    by_name = {name.lower(): agent_id for agent_id, name in agents.items()}
    team_names = {team.name.lower(): team.leader for team in teams.values()}
    return leaders.get(token) or by_name.get(token) or team_names.get(token)


def prefix_pattern(agent: str) -> str:
    """The pattern that matches a text which names the agent by its id, and no other text."""
    return rf"(?i)^@{re.escape(agent)}[{_MARKS}]*(\s|$)"
