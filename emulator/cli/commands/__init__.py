"""The commands that show and change a running Postroom: one module for each subject.

They use its REST API. For an emulator on this machine ``verify`` reads the database and the bucket, and ``status``
asks its supervisor; ``validate`` and ``data`` read only files.
"""

import typer

from emulator.cli.commands import (
    alerts,
    data,
    doctor,
    messages,
    responses,
    schedules,
    search,
    sessions,
    status,
    tools,
    top,
    usage,
    validate,
    verify,
    version,
    why,
)
from emulator.cli.commands.channels import accounts, channel
from emulator.cli.commands.frame import command
from emulator.cli.commands.moving import exports, imports
from emulator.cli.commands.past import replay
from emulator.cli.commands.people import approvals, dropped, pairings, permissions, users
from emulator.cli.commands.releases import prove, rollback, upgrade
from emulator.cli.commands.replica import group as replica
from emulator.cli.commands.roster import agents, chats, destinations, memory, seeds, teams, tool_servers
from emulator.cli.commands.running import calls, clock, database, faults, logs, requests, stopping

_GROUPS = {
    "agents": agents.app,
    "teams": teams.app,
    "accounts": accounts.app,
    "channel": channel.app,
    "chats": chats.app,
    "wirings": chats.wirings_app,
    "users": users.app,
    "destinations": destinations.app,
    "memory": memory.app,
    "tool-servers": tool_servers.app,
    "approvals": approvals.app,
    "permissions": permissions.app,
    "pairings": pairings.app,
    "sessions": sessions.app,
    "messages": messages.app,
    "responses": responses.app,
    "requests": requests.app,
    "schedules": schedules.app,
    "alerts": alerts.app,
    "budgets": usage.budgets_app,
    "cron": calls.cron_app,
    "fault": faults.app,
    "clock": clock.app,
    "data": data.app,
    "import": imports.app,
    "replica": replica.app,
}


def add_to(app: typer.Typer) -> None:
    """Make them commands of *app*."""
    for name, group in _GROUPS.items():
        app.add_typer(group, name=name)
    command(app, "pair")(pairings.pair)
    command(app, "queue")(messages.show_queue)
    command(app, "dropped")(dropped.list_dropped)
    command(app, "search")(search.search)
    command(app, "tools")(tools.serve_tools)
    command(app, "usage")(usage.show_usage)
    command(app, "why")(why.explain)
    command(app, "replay")(replay.replay)
    command(app, "diff")(seeds.show_differences)
    command(app, "seed")(seeds.seed)
    app.command("status")(status.status)
    app.command("top")(top.top)
    app.command("logs")(logs.logs)
    app.command("wait")(stopping.wait)
    app.command("stop")(stopping.stop)
    app.command("invoke")(calls.invoke)
    app.command("db")(database.db)
    app.command("export")(exports.export)
    app.command("doctor")(doctor.doctor)
    app.command("prove")(prove.prove)
    app.command("upgrade")(upgrade.upgrade)
    app.command("rollback")(rollback.rollback)
    app.command("verify")(verify.verify)
    app.command("validate")(validate.validate)
    app.command("version")(version.version)
