"""``emulator schedules``: messages that agents get later, once or repeatedly."""

from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result, shorten

app = group("Schedules: messages that agents get later, once or repeatedly.")

Id = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Its id or its label.")]


@command(app, "list")
def list_schedules(
    api: RestClient, agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None
) -> CommandResult:
    """List the schedules, soonest first."""
    found = api.get("schedules", agent=agent)
    table = TextTable(
        ("schedule", "label", "agent", "when", "next", "text"),
        [
            (
                each["id"],
                each["label"] if each["label"] != each["id"] else "",
                each["agentId"],
                _rhythm(each),
                _next(each),
                shorten(each["message"]),
            )
            for each in found
        ],
        "There is no schedule.",
    )
    return result(found, table)


@command(app, "show")
def show_schedule(api: RestClient, schedule: Id) -> CommandResult:
    """Show one schedule."""
    found = _find(api, schedule)
    facts = {
        "schedule": found["id"],
        "label": found["label"] if found["label"] != found["id"] else None,
        "agent": found["agentId"],
        "when": _rhythm(found),
        "next": _next(found),
        "as": f"{found['channel']} {found['sender']}",
        "next one created": local_time(found["createdAt"]),
        "text": found["message"],
    }
    return result(found, FactList(facts))


@command(app, "pause")
def pause(api: RestClient, schedule: Id) -> CommandResult:
    """Start no more runs until the schedule is resumed. A run that has begun continues."""
    return _switch(api, schedule, is_on=False)


@command(app, "resume")
def resume(api: RestClient, schedule: Id) -> CommandResult:
    """Continue with the next scheduled time. Runs that were due during the pause are skipped."""
    return _switch(api, schedule, is_on=True)


@command(app, "cancel")
def cancel(api: RestClient, schedule: Id) -> CommandResult:
    """End the schedule. A run that has begun continues."""
    return result(api.delete("schedules", schedule), f"Schedule {schedule} is cancelled.")


def _switch(api: RestClient, schedule: str, *, is_on: bool) -> CommandResult:
    if _find(api, schedule)["enabled"] is is_on:
        raise errors.EmulatorError(f"schedule {schedule} is {'not paused' if is_on else 'already paused'}")
    saved = api.put("schedules", schedule, body={"enabled": is_on})
    state = f"continues at {_next(saved['schedule'])}" if is_on else "is paused"
    return result(saved, f"Schedule {schedule} {state}.")


def _find(api: RestClient, schedule: str) -> dict[str, Any]:
    for each in api.get("schedules"):
        if schedule in (each["id"], each["label"]):
            found: dict[str, Any] = each
            return found
    raise errors.DoesNotExist(f"there is no schedule {schedule!r}; `{api.command_line('schedules list')}` lists them")


def _rhythm(of: dict[str, Any]) -> str:
    return f"{of['cron']} ({of['timezone']})" if of["cron"] else "once"


def _next(of: dict[str, Any]) -> str:
    return local_time(of["nextAt"]) if of["enabled"] else "paused"
