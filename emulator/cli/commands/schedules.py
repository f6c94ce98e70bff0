"""``emulator schedules``: what agents are asked later, once or again and again."""

from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result, shorten

app = group("Schedules: what agents are asked later, once or again and again.")

Id = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Its id or its label.")]


@command(app, "list")
def list_schedules(
    api: RestClient, agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None
) -> CommandResult:
    """What is planned, soonest first."""
    found = api.get("schedules", agent=agent)
    table = TextTable(
        ("schedule", "label", "agent", "when", "next", "what"),
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
        "Nothing is planned.",
    )
    return result(found, table)


@command(app, "show")
def show_schedule(api: RestClient, schedule: Id) -> CommandResult:
    """One schedule: what is asked, of whom, and when."""
    found = _find(api, schedule)
    facts = {
        "schedule": found["id"],
        "label": found["label"] if found["label"] != found["id"] else None,
        "agent": found["agentId"],
        "when": _rhythm(found),
        "next": _next(found),
        "as": f"{found['channel']} {found['sender']}",
        "this one made": local_time(found["createdAt"]),
        "what": found["message"],
    }
    return result(found, FactList(facts))


@command(app, "pause")
def pause(api: RestClient, schedule: Id) -> CommandResult:
    """Let nothing of it begin any more, until it is resumed; what runs goes on."""
    return _switch(api, schedule, is_on=False)


@command(app, "resume")
def resume(api: RestClient, schedule: Id) -> CommandResult:
    """Let it go on, with the next of its instants; what was due meanwhile is left out."""
    return _switch(api, schedule, is_on=True)


@command(app, "cancel")
def cancel(api: RestClient, schedule: Id) -> CommandResult:
    """End it: what has begun goes on, and nothing follows."""
    return result(api.delete("schedules", schedule), f"Schedule {schedule} has ended.")


def _switch(api: RestClient, schedule: str, *, is_on: bool) -> CommandResult:
    if _find(api, schedule)["enabled"] is is_on:
        raise errors.EmulatorError(f"schedule {schedule} is {'not paused' if is_on else 'paused already'}")
    saved = api.put("schedules", schedule, body={"enabled": is_on})
    state = f"goes on: {_next(saved['schedule'])}" if is_on else "is paused"
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
