"""The commands that look at a running Postroom and change it, over its REST API: a module for each subject."""

import typer

from emulator.commands import agents, sessions, teams

_GROUPS = {"agents": agents.app, "teams": teams.app, "sessions": sessions.app}


def add_to(app: typer.Typer) -> None:
    """Make them commands of *app*."""
    for name, group in _GROUPS.items():
        app.add_typer(group, name=name)
