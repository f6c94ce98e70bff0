"""Whom a text is for: ``@agent text``, ``@team text`` (its leader), or either's name; else nobody is named.

The first token alone decides, and the text stays as it is: the history's readers take the prefix off themselves.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_PREFIX = re.compile(r"@(\S+)\s")


@dataclass(frozen=True, slots=True)
class Team:
    """What addressing needs to know of a team."""

    name: str
    leader: str


def addressee(text: str, agents: Mapping[str, str], teams: Mapping[str, Team]) -> str | None:
    """The id of the agent that the text begins with, or None.

    Args:
        agents: id to name.
        teams: by id.
    """
    found = _PREFIX.match(text)
    if found is None:
        return None
    token = found[1].lower()
    leaders = {team_id: team.leader for team_id, team in teams.items()}
    by_name = {name.lower(): agent_id for agent_id, name in agents.items()}
    team_names = {team.name.lower(): team.leader for team in teams.values()}
    if token in agents:
        return token
    return leaders.get(token) or by_name.get(token) or team_names.get(token)
