"""The roster file: the operator's agents and teams, applied to the database as a whole or not at all."""

from typing import Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.core.time import clock
from shared.rest.admin import apply_file
from shared.rest.admin.apply_file import AppliedFile
from shared.rest.http.endpoint import Body, Query, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.rest.resources.agents import refuse_free_programs
from shared.roster import agents_and_teams, roster_file
from shared.roster.roster_file import Roster, as_stored


class RosterAgent(agents_and_teams.AgentChange):
    """An agent in the file; fields that are left out stay as they are, or get their defaults."""


class RosterTeam(agents_and_teams.TeamChange):
    """A team in the file; fields that are left out stay as they are, or get their defaults."""


class RosterAccount(roster_file.AccountChange):
    """An account in the file: a bot or app. It is added where it is missing."""


class RosterBody(Body):
    """The content of ``postroom.toml``: agents and teams by id, accounts by name. *default*: the default agent."""

    default: str | None = None
    agents: dict[str, RosterAgent] = Field(default={}, max_length=1000)
    teams: dict[str, RosterTeam] = Field(default={}, max_length=1000)
    accounts: dict[str, RosterAccount] = Field(default={}, max_length=1000)


class RosterQuery(Query):
    """*delete*: delete the agents and teams that are not in the file. *check*: answer alike, and change nothing."""

    delete: bool = False
    check: bool = False


class _Checked(Exception):
    """The whole change is possible. It is thrown so that the transaction is rolled back."""


class AppliedRoster(TypedDict):
    """*done*: the changes, in order. *kept*: the agents and teams that are not in the file and stayed."""

    ok: Literal[True]
    done: list[str]
    kept: list[str]


@endpoint(
    "PUT",
    "/api/roster",
    {400: "a value is not allowed; the error says which", 409: "an agent can't be deleted now; the error says why"},
)
async def put_roster(service: Service, *, body: RosterBody, query: RosterQuery) -> AppliedRoster:
    """Create or change all agents and teams of the file, in one transaction."""
    named = body.model_dump(exclude_unset=True)
    agents, teams = named.get("agents", {}), named.get("teams", {})
    if marked := [id_ for id_, agent in agents.items() if "default" in agent]:
        raise RequestRefused(
            400, f"agents.{marked[0]}.default: write default: {marked[0]!r} beside agents and teams instead"
        )
    if body.default is not None and body.default not in agents:
        raise RequestRefused(400, f"default: {body.default!r} is not among agents")
    refuse_free_programs(service.settings, [str(agent.get("provider", "")) for agent in agents.values()])
    named_accounts = {name: account.model_dump() for name, account in body.accounts.items()}
    file = Roster({id_: as_stored(id_, agent) for id_, agent in agents.items()}, teams, body.default, named_accounts)
    zone = service.settings.timezone

    def work(conn: apsw.Connection) -> AppliedFile:
        applied = apply_file.apply(conn, file, is_deleting=query.delete, timezone=zone, now_ms=clock.now_ms())
        if query.check:
            raise _Checked(applied)
        return applied

    try:
        done, kept = await service.change(work, "deliver")
    except _Checked as checked:
        done, kept = checked.args[0]
    return {"ok": True, "done": done, "kept": kept}


ENDPOINTS = (put_roster,)
