"""Whom a text is for: ``@agent text``, ``@team text`` (its leader), or either's name; else nobody is named.

The first token alone decides, whatever its case. Who writes over the API keeps the prefix in the text; from a chat it
is taken off.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

_PREFIX = re.compile(r"@(\S+)\s+")
_MARKS = ",:"  # behind a name, as one writes to people


@dataclass(frozen=True, slots=True)
class Team:
    """What addressing needs to know of a team."""

    name: str
    leader: str


class Named(NamedTuple):
    """The id of the agent that a text names, and the text without that."""

    agent: str
    rest: str


def named(text: str, agents: Mapping[str, str], teams: Mapping[str, Team]) -> Named | None:
    """Whom the text begins by naming, or None. An agent comes before a team, and an id before a name.

    Args:
        agents: id to name.
        teams: by id.
    """
    found = _PREFIX.match(text)
    if found is None:
        return None
    token = found[1].lower()
    agent = _agent(token, agents, teams) or _agent(token.rstrip(_MARKS), agents, teams)
    return Named(agent, text[found.end() :]) if agent is not None else None


def named_after_us(text: str, agents: Mapping[str, str], teams: Mapping[str, Team]) -> Named | None:
    """The same, also behind an ``@name`` that is nobody's here: in a group the bot itself has to be named first."""
    direct = named(text, agents, teams)
    found = None if direct is not None else _PREFIX.match(text)
    return direct if found is None else named(text[found.end() :], agents, teams)


def addressee(text: str, agents: Mapping[str, str], teams: Mapping[str, Team]) -> str | None:
    """The id of the agent that a text over the API begins with, or None; the whole token, as TinyAGI has it."""
    found = _PREFIX.match(text)
    return _agent(found[1].lower(), agents, teams) if found else None


def _agent(token: str, agents: Mapping[str, str], teams: Mapping[str, Team]) -> str | None:
    if token in agents:
        return token
    leaders = {team_id: team.leader for team_id, team in teams.items()}
    by_name = {name.lower(): agent_id for agent_id, name in agents.items()}
    team_names = {team.name.lower(): team.leader for team in teams.values()}
    return leaders.get(token) or by_name.get(token) or team_names.get(token)


def own_prefix(agent: str) -> str:
    """The pattern that matches a text which names the agent by its id, and no other text."""
    return rf"(?i)^@{re.escape(agent)}[{_MARKS}]*(\s|$)"
