"""The operator's file of agents and teams: the database follows all of it at once, or nothing of it."""

from typing import Literal

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from shared.admin import apply_file
from shared.core import clock
from shared.rest.http.endpoint import Body, Query, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.roster import agents_and_teams
from shared.roster.roster_file import Roster, as_stored


class RosterAgent(agents_and_teams.AgentChange):
    """An agent as the file says it; what is not named stays, or is as usual."""


class RosterTeam(agents_and_teams.TeamChange):
    """A team as the file says it; what is not named stays, or is as usual."""


class RosterBody(Body):
    """What ``postroom.toml`` says: agents and teams by id, and who answers where nobody is named (none: who does)."""

    model_config = ConfigDict(extra="forbid")

    default: str | None = None
    agents: dict[str, RosterAgent] = Field(default={}, max_length=1000)
    teams: dict[str, RosterTeam] = Field(default={}, max_length=1000)


class RosterQuery(Query):
    """Whether who is only in the database is let go."""

    delete: bool = False


class AppliedRoster(TypedDict):
    """What was done, in its order; who is only in the database, and stayed."""

    ok: Literal[True]
    done: list[str]
    kept: list[str]


@endpoint(
    "PUT",
    "/api/roster",
    {400: "something of it can't be so; the sentence says what", 409: "somebody can't go; the sentence says why"},
)
async def put_roster(service: Service, *, body: RosterBody, query: RosterQuery) -> AppliedRoster:
    """Make or change all agents and teams that are named, in one transaction: all of it, or nothing."""
    named = body.model_dump(exclude_unset=True)
    agents, teams = named.get("agents", {}), named.get("teams", {})
    if said := [id_ for id_, agent in agents.items() if "default" in agent]:
        raise RequestRefused(
            400, f"agents.{said[0]}.default: write default: {said[0]!r} beside agents and teams instead"
        )
    if body.default is not None and body.default not in agents:
        raise RequestRefused(400, f"default: there is no {body.default!r} among agents")
    file = Roster({id_: as_stored(id_, agent) for id_, agent in agents.items()}, teams, body.default)
    zone = service.settings.timezone
    done, kept = await service.change(
        lambda conn: apply_file.apply(conn, file, is_deleting=query.delete, timezone=zone, now_ms=clock.now_ms()),
        "deliver",
    )
    return {"ok": True, "done": done, "kept": kept}


ENDPOINTS = (put_roster,)
