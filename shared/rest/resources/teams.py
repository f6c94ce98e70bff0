"""Teams of agents, and their chat rooms: every member gets what is said there."""

from typing import Annotated, ClassVar, Literal

import apsw
from pydantic import ConfigDict, Field, StringConstraints
from typing_extensions import TypedDict

from shared.conversation.routing.addressing import TeamName
from shared.core.time import clock
from shared.db.roster import teams
from shared.db.views import history
from shared.db.views.history import RoomLine
from shared.queue.teamwork import rooms
from shared.rest.http.common import OK, LimitQuery, Ok
from shared.rest.http.endpoint import Body, endpoint
from shared.rest.http.service import Service
from shared.roster import agents_and_teams
from shared.roster.agents_and_teams import known_team
from shared.roster.changes import without_defaults


class TeamView(TypedDict):
    """The members of a team; the leader gets the messages to ``@team``."""

    name: str
    agents: list[str]
    leader_agent: str


class SavedTeam(TypedDict):
    """The team after the change."""

    ok: Literal[True]
    team: TeamView


class PostedRoomLine(TypedDict):
    """The id of the new line."""

    ok: Literal[True]
    id: int


class TeamBody(Body):
    """Fields that are left out stay as they are. A new team needs *agents*; by default the first of them leads."""

    model_config = ConfigDict(json_schema_extra=without_defaults)

    name: str = Field(default="", min_length=1, max_length=200)
    agents: list[str] = Field(default=[], min_length=1, max_length=agents_and_teams.MOST_MEMBERS)
    leader_agent: str = ""


class RoomLineBody(Body):
    """What a person says in the room."""

    sentences: ClassVar = {"message": "message is required"}

    message: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class RoomQuery(LimitQuery):
    """*limit*: how many lines. *since*: only later lines, oldest first."""

    since: int = Field(default=0, ge=0, lt=2**63)
    since_id: int = Field(default=0, ge=0, lt=2**63, description="the same as since")


def team_view(team: teams.Team) -> TeamView:
    """The team as the API shows it."""
    return {"name": team.name, "agents": list(team.agents), "leader_agent": team.leader}


def team_views(conn: apsw.Connection) -> dict[str, TeamView]:
    """All teams, by id."""
    return {team.id: team_view(team) for team in teams.every(conn)}


def team_names(conn: apsw.Connection) -> dict[str, TeamName]:
    """The teams that ``@team`` can address, by id."""
    return {team.id: TeamName(team.name, team.leader) for team in teams.every(conn)}


@endpoint("GET", "/api/teams")
async def get_teams(service: Service) -> dict[str, TeamView]:
    """List all teams, by id."""
    return team_views(service.reader)


@endpoint("GET", "/api/teams/{id}", {404: "there is no such team"})
async def get_team(service: Service, *, id: str) -> TeamView:
    """Read one team."""
    return team_view(known_team(service.reader, id))


@endpoint("PUT", "/api/teams/{id}", {400: "a value is not allowed; the error says why"})
async def put_team(service: Service, *, id: str, body: TeamBody) -> SavedTeam:
    """Create a team, or change the given fields of one."""
    change = body.model_dump(exclude_unset=True)
    if "leader_agent" in change:
        change["leader"] = change.pop("leader_agent")
    team = await service.change(lambda conn: agents_and_teams.save_team(conn, id, change, now_ms=clock.now_ms()))
    return {"ok": True, "team": team_view(team)}


@endpoint("DELETE", "/api/teams/{id}", {404: "there is no such team"})
async def delete_team(service: Service, *, id: str) -> Ok:
    """Delete a team. Its agents and the lines of its room stay."""
    await service.change(lambda conn: agents_and_teams.delete_team(conn, id))
    return OK


@endpoint("GET", "/api/chatroom/{id}", {404: "there is no such team"})
async def get_room(service: Service, *, id: str, query: RoomQuery) -> list[RoomLine]:
    """List the lines of the team's room, newest first."""
    known_team(service.reader, id)
    return history.room(service.reader, id, after=query.since or query.since_id, limit=query.limit)


@endpoint("POST", "/api/chatroom/{id}", {404: "there is no such team"})
async def post_room(service: Service, *, id: str, body: RoomLineBody) -> PostedRoomLine:
    """Say something in the team's room."""
    line = await service.change(
        lambda conn: rooms.post(conn, known_team(conn, id), body.message, now_ms=clock.now_ms()), "dispatch"
    )
    return {"ok": True, "id": line}


ENDPOINTS = (get_teams, get_team, put_team, delete_team, get_room, post_room)
