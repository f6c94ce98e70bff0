"""Teams of agents, and the rooms in which all of a team hear everything."""

import apsw
from typing_extensions import TypedDict

from shared.db import views
from shared.rest.addressing import Team as Addressable
from shared.rest.endpoint import endpoint
from shared.rest.service import Service


class Team(TypedDict):
    """Its members, one of whom is asked when somebody asks the team."""

    name: str
    agents: list[str]
    leader_agent: str


def every(conn: apsw.Connection) -> dict[str, Team]:
    """All teams, by id."""
    return views.teams(conn)


def addressable(conn: apsw.Connection) -> dict[str, Addressable]:
    """What ``@team`` may name."""
    return {id_: Addressable(team["name"], team["leader_agent"]) for id_, team in every(conn).items()}


@endpoint("GET", "/api/teams")
async def get_teams(service: Service) -> dict[str, Team]:
    """All teams, by id."""
    return every(service.reader)


ENDPOINTS = (get_teams,)
