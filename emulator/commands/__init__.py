"""The commands that look at a running Postroom and change it, over its REST API: a module for each subject."""

import typer

from emulator.commands import agents, seeds, sessions, teams
from emulator.commands.frame import command

_GROUPS = {"agents": agents.app, "teams": teams.app, "sessions": sessions.app}


def add_to(app: typer.Typer) -> None:
    """Make them commands of *app*."""
    for name, group in _GROUPS.items():
        app.add_typer(group, name=name)
    command(app, "diff")(seeds.show_differences)
    command(app, "seed")(seeds.seed)
