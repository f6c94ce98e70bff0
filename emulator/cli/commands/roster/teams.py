"""``emulator teams``: agents that work together; the leader gets the team's messages."""

from typing import Annotated, Any

import typer

from emulator.cli.client import RestClient
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, FactList, TextTable, result

app = group("Teams: agents that work together; the leader gets the team's messages.")

Id = Annotated[str, typer.Argument(metavar="TEAM", help="Its id: a-z, 0-9, _ and -.")]


@command(app, "list")
def list_teams(api: RestClient) -> CommandResult:
    """List all teams."""
    found = api.get("teams")
    rows = [(id_, team["name"], team["leader_agent"], team["agents"]) for id_, team in found.items()]
    empty = f"There is no team. To create one: {api.command_line('teams set ID --agents coder,reviewer')}"
    return result(found, TextTable(("team", "name", "leader", "agents"), rows, empty))


@command(app, "show")
def show_team(api: RestClient, team: Id) -> CommandResult:
    """Show one team."""
    found = api.get("teams", team)
    facts = {"team": team, "name": found["name"], "leader": found["leader_agent"], "agents": found["agents"]}
    return result(found, FactList(facts))


@command(app, "set")
def set_team(
    api: RestClient,
    team: Id,
    name: Annotated[str | None, typer.Option(help="The name that people read.")] = None,
    agents: Annotated[str | None, typer.Option(help="The ids of all members, separated by commas.")] = None,
    leader: Annotated[
        str | None, typer.Option(help="The member that gets the team's messages; by default the first.")
    ] = None,
) -> CommandResult:
    """Create a team, or change the given settings of one; its other settings stay."""
    change: dict[str, Any] = {"name": name, "leader_agent": leader}
    if agents is not None:
        change["agents"] = [agent for agent in (part.strip() for part in agents.split(",")) if agent]
    change = {key: value for key, value in change.items() if value is not None}
    saved = api.put("teams", team, body=change)
    now = saved["team"]
    return result(saved, f"Team {team}: {', '.join(now['agents'])}; {now['leader_agent']} leads.")


@command(app, "delete")
def delete_team(api: RestClient, team: Id) -> CommandResult:
    """Delete a team. Its agents stay, and so do the messages in its room."""
    return result(api.delete("teams", team), f"Team {team} is deleted; its agents stay.")
