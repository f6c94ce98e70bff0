"""Teams of agents, and the rooms in which all of a team hear everything."""

from typing import Annotated, ClassVar, Literal

import apsw
from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from shared import clock, rooms
from shared.addressing import Team as Addressable
from shared.db import agents, teams, views
from shared.rest.common import DONE, Done, Newest
from shared.rest.endpoint import Body, Refused, endpoint
from shared.rest.service import Service

_MOST_MEMBERS = 100


class Team(TypedDict):
    """Its members, one of whom is asked when somebody asks the team."""

    name: str
    agents: list[str]
    leader_agent: str


class Saved(TypedDict):
    """The team as it is now."""

    ok: Literal[True]
    team: Team


class Line(TypedDict):
    """What somebody said in the room; ``from_agent`` is ``user`` where that is a person."""

    id: int
    team_id: str
    from_agent: str
    message: str
    created_at: int


class Posted(TypedDict):
    """The line's id."""

    ok: Literal[True]
    id: int


class NewTeam(Body):
    """All of a team."""

    name: str = Field(min_length=1, max_length=200)
    agents: list[str] = Field(min_length=1, max_length=_MOST_MEMBERS)
    leader_agent: str


class NewLine(Body):
    """What a person says."""

    sentences: ClassVar = {"message": "message is required"}

    message: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class After(Newest):
    """How many; after a line, the next ones, oldest first."""

    since: int = Field(default=0, ge=0, lt=2**63)
    since_id: int = Field(default=0, ge=0, lt=2**63, description="the same as since")


def shown(team: teams.Team) -> Team:
    """The team as the API shows it."""
    return {"name": team.name, "agents": list(team.agents), "leader_agent": team.leader}


def every(conn: apsw.Connection) -> dict[str, Team]:
    """All teams, by id."""
    return {team.id: shown(team) for team in teams.every(conn)}


def addressable(conn: apsw.Connection) -> dict[str, Addressable]:
    """What ``@team`` may name."""
    return {team.id: Addressable(team.name, team.leader) for team in teams.every(conn)}


def _known(conn: apsw.Connection, team_id: str) -> teams.Team:
    team = teams.get(conn, team_id)
    if team is None:
        raise Refused(404, f"team '{team_id}' not found")
    return team


@endpoint("GET", "/api/teams")
async def get_teams(service: Service) -> dict[str, Team]:
    """All teams, by id."""
    return every(service.reader)


@endpoint("PUT", "/api/teams/{id}", {400: "the team can't be so; the sentence says why"})
async def put_team(service: Service, *, id: str, body: NewTeam) -> Saved:
    """Make a team, or replace one."""
    team = teams.Team(id, body.name, body.leader_agent, tuple(dict.fromkeys(body.agents)))
    if team.leader not in team.agents:
        raise Refused(400, f"leader_agent {team.leader!r} is not among the agents")

    def work(conn: apsw.Connection) -> None:
        strangers = [agent for agent in team.agents if agents.get(conn, agent) is None]
        if strangers:
            raise Refused(400, f"agents: there is no {', '.join(strangers)}")
        if agents.get(conn, id) is not None:
            raise Refused(400, f"there is an agent {id!r}: @{id} can't name both")
        teams.save(conn, team, now_ms=clock.now_ms())

    try:
        await service.change(work)
    except apsw.ConstraintError:
        raise Refused(400, "a team's id is 1 to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit") from None
    return {"ok": True, "team": shown(team)}


@endpoint("DELETE", "/api/teams/{id}", {404: "there is no such team"})
async def delete_team(service: Service, *, id: str) -> Done:
    """Forget the team. Its agents stay, and what was said in its room."""

    def work(conn: apsw.Connection) -> None:
        _known(conn, id)
        teams.delete(conn, id)

    await service.change(work)
    return DONE


@endpoint("GET", "/api/chatroom/{id}", {404: "there is no such team"})
async def get_room(service: Service, *, id: str, query: After) -> list[Line]:
    """What was said in the team's room, newest first."""
    _known(service.reader, id)
    return views.room(service.reader, id, after=query.since or query.since_id, limit=query.limit)


@endpoint("POST", "/api/chatroom/{id}", {404: "there is no such team"})
async def post_room(service: Service, *, id: str, body: NewLine) -> Posted:
    """Say something to all of the team."""
    line = await service.change(
        lambda conn: rooms.post(conn, _known(conn, id), body.message, now_ms=clock.now_ms()), "dispatch"
    )
    return {"ok": True, "id": line}


ENDPOINTS = (get_teams, put_team, delete_team, get_room, post_room)
