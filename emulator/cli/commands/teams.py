"""``emulator teams``: agents that work together, one of whom is asked when somebody asks the team."""

from typing import Annotated, Any

import typer

from emulator.cli.client import RestClient
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, FactList, TextTable, result

app = group("Teams: agents that work together, and who of them is asked.")

Id = Annotated[str, typer.Argument(metavar="TEAM", help="Its id: a-z, 0-9, _ and -.")]


@command(app, "list")
def list_teams(api: RestClient) -> CommandResult:
    """All teams."""
    found = api.get("teams")
    rows = [(id_, team["name"], team["leader_agent"], team["agents"]) for id_, team in found.items()]
    empty = f"There is no team; make one: {api.command_line('teams set ID --agents coder,reviewer')}"
    return result(found, TextTable(("team", "name", "leader", "agents"), rows, empty))


@command(app, "show")
def show_team(api: RestClient, team: Id) -> CommandResult:
    """One team."""
    found = api.get("teams", team)
    facts = {"team": team, "name": found["name"], "leader": found["leader_agent"], "agents": found["agents"]}
    return result(found, FactList(facts))


@command(app, "set")
def set_team(
    api: RestClient,
    team: Id,
    name: Annotated[str | None, typer.Option(help="What people read.")] = None,
    agents: Annotated[str | None, typer.Option(help="Its members' ids with commas between; all of them.")] = None,
    leader: Annotated[str | None, typer.Option(help="Who is asked; of a new team, else the first member.")] = None,
) -> CommandResult:
    """Make a team, or change what is named of it; the rest stays."""
    change: dict[str, Any] = {"name": name, "leader_agent": leader}
    if agents is not None:
        change["agents"] = [agent for agent in (part.strip() for part in agents.split(",")) if agent]
    change = {key: value for key, value in change.items() if value is not None}
    saved = api.put("teams", team, body=change)
    now = saved["team"]
    return result(saved, f"Team {team}: {', '.join(now['agents'])}; {now['leader_agent']} leads.")


@command(app, "delete")
def delete_team(api: RestClient, team: Id) -> CommandResult:
    """Forget a team. Its agents stay, and what was said in its room."""
    return result(api.delete("teams", team), f"Team {team} is gone; its agents stay.")
