"""``emulator schedules``: messages that agents get later, once or repeatedly."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands import setting_options
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result, shorten
from shared.core.row_settings import camel
from shared.core.time import clock
from shared.core.time.durations import time_span
from shared.db.queue.schedules.settings import SETTINGS

app = group("Schedules: messages that agents get later, once or repeatedly.")

Id = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Its id or its label.")]
Daily = Annotated[str | None, typer.Option(metavar="HH:MM", help="Every day at this time.")]
Cron = Annotated[str | None, typer.Option(help="By a cron expression with five fields, such as '0 9 * * 1'.")]
At = Annotated[str | None, typer.Option(help="Once, at this instant, such as 2027-01-31T09:00.")]
Zone = Annotated[str | None, typer.Option(help="The time zone of these times; default: POSTROOM_TIMEZONE.")]
Label = Annotated[str | None, typer.Option(help="A name for people, in place of the id.")]


@command(app, "list")
def list_schedules(
    api: RestClient, agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None
) -> CommandResult:
    """List the schedules, soonest first."""
    found = api.get("schedules", agent=agent)
    places = _places(api, found)
    table = TextTable(
        ("schedule", "label", "agent", "when", "next", "answer to", "text", "why"),
        [
            (
                each["id"],
                each["label"] if each["label"] != each["id"] else "",
                each["agentId"],
                _rhythm(each),
                _next(each),
                places[each.get("chatId")],
                shorten(each["message"]),
                each["reason"] if each["state"] != "planned" else "",
            )
            for each in found
        ],
        f"There is no schedule. To make one: {api.command_line('schedules add AGENT TEXT')}",
    )
    return result(found, table)


@command(app, "add", settings=SETTINGS)
def add_schedule(
    api: RestClient,
    agent: Annotated[str, typer.Argument(metavar="AGENT")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text that the agent gets, each time.")],
    *,
    daily: Daily = None,
    cron: Cron = None,
    at: At = None,
    timezone: Zone = None,
    chat: Annotated[int | None, typer.Option(min=1, help="The chat that gets the answer: its number.")] = None,
    user: Annotated[
        int | None, typer.Option("--to", min=1, help="The user who gets the answer in the direct chat: their number.")
    ] = None,
    label: Label = None,
    session: Annotated[
        Literal["chat", "own"],
        typer.Option(
            help="The session of its runs: that of the chat, or one of their own, which does not know the chat."
        ),
    ] = "chat",
    **settings: Any,
) -> CommandResult:
    """Give an agent a task, once or repeatedly, and send its answer to a chat or a user.

    Without --chat and --to, the answer goes to the one chat where the agent may write.
    """
    if sum(given is not None for given in (daily, cron, at)) != 1:
        raise errors.UsageError("when is it to run? Use one of --daily, --cron and --at")
    if chat is None and user is None:
        chat = _only_chat(api, agent)
    if (chat is None) is (user is None):
        raise errors.UsageError(
            f"who gets the answer? Use --chat NUMBER (`{api.command_line('chats list')}`), or --to USER "
            f"(`{api.command_line('users list')}`)"
        )
    given = {"timezone": timezone, "chatId": chat, "userId": user, "label": label, **_rhythm_of(daily, cron, at)}
    given["session"] = session
    body = {"agentId": agent, "message": text, **_given(given), **_settings(settings)}
    saved = api.post("schedules", body=body)
    made = saved["schedule"]
    place = _places(api, [made])[made.get("chatId")]
    return result(
        saved,
        f"Schedule {made['id']}: agent {agent} gets this text {_rhythm(made)}; next run {_next(made)}. "
        f"The answer goes to {place}, from {_session(made)}.",
    )


@command(app, "set", settings=SETTINGS)
def set_schedule(
    api: RestClient,
    schedule: Id,
    *,
    text: Annotated[str | None, typer.Option(help="The text that the agent gets, each time.")] = None,
    daily: Daily = None,
    cron: Cron = None,
    at: At = None,
    timezone: Zone = None,
    label: Label = None,
    **settings: Any,
) -> CommandResult:
    """Change a schedule, from its next run that has not begun. What is not named stays."""
    rhythm = _rhythm_of(daily, cron, at)
    change = {**_given({"message": text, "timezone": timezone, "label": label, **rhythm}), **_settings(settings)}
    if not change:
        raise errors.UsageError("what is to change? Name an option; `--help` lists them")
    saved = api.put("schedules", _find(api, schedule)["id"], body=change)
    made = saved["schedule"]
    return result(saved, f"Schedule {made['id']} is changed: it runs {_rhythm(made)}; next run {_next(made)}.")


def _rhythm_of(daily: str | None, cron: str | None, at: str | None) -> dict[str, str | None]:
    """When it runs, as REST takes it."""
    if sum(given is not None for given in (daily, cron, at)) > 1:
        raise errors.UsageError("when is it to run? Use one of --daily, --cron and --at")
    return {"cron": _every_day(daily) if daily is not None else cron, "runAt": at}


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    return {camel(name): value for name, value in setting_options.read(SETTINGS, given).items()}


def _only_chat(api: RestClient, agent: str) -> int | None:
    """The chat where the agent may write, if there is one alone."""
    found = {each["chatId"] for each in api.get("destinations", agent=agent) if each["chatId"] is not None}
    return found.pop() if len(found) == 1 else None


def _session(of: dict[str, Any]) -> str:
    """The session of its runs, in words."""
    kind = "a session of its own" if of["session"] == "own" else "the session of its chat"
    return f"{kind} ({of['sessionId']})" if of["sessionId"] else kind


_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


def _every_day(time: str) -> str:
    """The cron expression of a time of day."""
    found = _TIME.fullmatch(time)
    if found is None:
        raise errors.InvalidInput(f"--daily {time!r} is not a time of day, such as 09:00")
    return f"{int(found[2])} {int(found[1])} * * *"


def _places(api: RestClient, found: Iterable[dict[str, Any]]) -> dict[int | None, str]:
    """Where the answers of these schedules go, by the number of the chat."""
    places: dict[int | None, str] = {None: "a client that fetches it"}
    for number in {each["chatId"] for each in found if "chatId" in each}:
        chat = api.get("chats", number)
        places[number] = f"chat {number} ({chat['name'] or chat['channel'] + ' ' + chat['platformId']})"
    return places


@command(app, "show")
def show_schedule(api: RestClient, schedule: Id) -> CommandResult:
    """Show one schedule, and what became of its last run."""
    found = _find(api, schedule)
    last = api.get("schedules", found["id"], "runs", limit=1)
    facts = {
        "schedule": found["id"],
        "label": found["label"] if found["label"] != found["id"] else None,
        "agent": found["agentId"] or None,
        "when": _rhythm(found),
        "next": _next(found),
        "why": found["reason"] if found["state"] != "planned" else None,
        "answer to": _places(api, [found])[found.get("chatId")],
        "session": _session(found),
        "last run": f"{local_time(last[0]['dueAt'])[:10]} {last[0]['words']}" if last else "(none yet)",
        "as": f"{found['channel']} {found['sender']}",
        "next one created": local_time(found["createdAt"]),
        **setting_options.facts(SETTINGS, {name: found[camel(name)] for name in SETTINGS}),
        "text": found["message"],
    }
    return result(found, FactList(facts))


@command(app, "history")
def show_history(
    api: RestClient,
    schedule: Annotated[
        str, typer.Argument(metavar="SCHEDULE", help="Its id or its label; once it has ended, its id.")
    ],
    limit: Limit = 20,
) -> CommandResult:
    """Tell what became of the runs of a schedule, newest first, and which were missed, and why."""
    found = api.get("schedules", schedule, "runs", limit=limit)
    table = TextTable(
        ("due", "what happened", "tokens"),
        [(local_time(each["dueAt"]), each["words"], each["tokens"]) for each in found],
        f"Schedule {schedule} has not run yet.",
    )
    return result(found, table)


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
    state = f"continues; next run {_next(saved['schedule'])}" if is_on else "is paused"
    return result(saved, f"Schedule {schedule} {state}.")


def _find(api: RestClient, schedule: str) -> dict[str, Any]:
    for each in api.get("schedules"):
        if schedule in (each["id"], each["label"]):
            found: dict[str, Any] = each
            return found
    raise errors.DoesNotExist(f"there is no schedule {schedule!r}; `{api.command_line('schedules list')}` lists them")


_DAILY = re.compile(r"([0-9]{1,2}) ([0-9]{1,2}) \* \* \*")


def _rhythm(of: dict[str, Any]) -> str:
    """``daily at 09:00 (Europe/Zurich)``; other rhythms as their cron expression."""
    if not of["cron"]:
        return "once"
    daily = _DAILY.fullmatch(of["cron"])
    rhythm = f"daily at {int(daily[2]):02}:{int(daily[1]):02}" if daily else of["cron"]
    return f"{rhythm} ({of['timezone']})"


def _next(of: dict[str, Any]) -> str:
    """``2026-11-27 09:00:00, in 12 h 4 min``."""
    if not of["enabled"]:
        return "paused"
    return f"{local_time(of['nextAt'])}, in {time_span(of['nextAt'] - clock.now_ms())}"
