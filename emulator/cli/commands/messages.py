"""``emulator queue`` and ``emulator messages``: how much waits, what runs, what was given up and what becomes of it."""

from typing import Annotated, Any, Literal

import typer

from emulator.base import errors
from emulator.base.errors import EmulatorError
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result, shorten, time_span
from shared.core import clock

app = group("Messages: what agents are asked. Those that run, those that were given up, and each one's whole story.")

Id = Annotated[str, typer.Argument(metavar="MESSAGE", help="Its id, such as telegram_1a2b3c4d.")]


def show_queue(api: RestClient) -> CommandResult:
    """The queue in numbers: what waits and runs, all in all and for each agent; what was given up."""
    found, agents = api.get("queue", "status"), api.get("queue", "agents")
    facts = {
        "waiting": found["incoming"],
        "running": found["processing"],
        "given up": found["dead"],
        "completed": found["completed"],
        "responses to send": found["outgoing"],
    }
    rows = [(each["agent"], each["pending"], each["processing"]) for each in agents]
    table = TextTable(("agent", "waiting", "running"), rows, "Nothing waits for any agent.")
    ways = (f"What was given up: {api.command_line('messages list')}",) if found["dead"] else ()
    return result({**found, "agents": agents}, FactList(facts), table, *ways)


@command(app, "list")
def list_messages(
    api: RestClient,
    status: Annotated[
        Literal["dead", "processing", "pending"],
        typer.Option(help="dead: what was given up; processing: what runs; pending: what waits."),
    ] = "dead",
    limit: Limit = 100,
) -> CommandResult:
    """What was given up and why, newest first; or what runs or waits, oldest first."""
    found = api.get("queue", status, limit=limit)
    if status == "pending":
        return result(found, _waiting(found))
    if status == "processing":
        return result(found, _running(found))
    again = api.command_line("messages retry MESSAGE")
    way = (f"To have one tried again: {again} (all of them: --all)",) if found else ()
    return result(found, _dead(found), *way)


@command(app, "show")
def show_message(api: RestClient, message: Id) -> CommandResult:
    """One message: what became of it, its answers, and what happened to it."""
    found = api.get("messages", message)
    answers = TextTable(
        ("response", "agent", "status", "tries", "what", "why not"),
        [
            (
                each["id"],
                each["agent"],
                each["status"],
                each["retryCount"] or "",
                shorten(each["message"]),
                shorten(each["lastError"] or ""),
            )
            for each in found["responses"]
        ],
        "There is no answer to it.",
    )
    events = TextTable(
        ("when", "what", "response", "more"),
        [
            (local_time(each["timestamp"]), each["type"], each.get("responseId"), each["data"])
            for each in found["events"]
        ],
        "",
    )
    return result(found, FactList(_facts(found)), answers, events)


@command(app, "retry")
def retry(
    api: RestClient,
    message: Annotated[str | None, typer.Argument(metavar="[MESSAGE]", help="Its id; or --all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that were given up.")] = False,
) -> CommandResult:
    """Have what was given up tried again now, with all its attempts before it."""
    if (message is None) is not every:
        raise errors.UsageError("which? name a message, or say --all")
    if message is not None:
        return result(api.post("queue", "dead", _dead_row(api, message), "retry"), f"Message {message} is tried again.")
    tried = api.retry_all("queue")
    return result({"retried": tried}, f"{_count(len(tried))} tried again.")


@command(app, "discard")
def discard(api: RestClient, message: Id) -> CommandResult:
    """Forget what was given up: its text goes, and it can't be tried again."""
    return result(api.delete("queue", "dead", _dead_row(api, message)), f"Message {message} is forgotten.")


@command(app, "cancel")
def cancel(api: RestClient, message: Id) -> CommandResult:
    """Let a message that waits or runs not be run (any more); a turn that has it is stopped. A schedule goes on."""
    return result(api.post("messages", message, "cancel"), f"Message {message} is cancelled.")


def _dead_row(api: RestClient, message: str) -> int:
    found = api.get("messages", message)
    if found["status"] != "dead":
        raise EmulatorError(f"message {message} is {found['status']}: it was not given up")
    row: int = found["id"]
    return row


def _count(number: int) -> str:
    return "1 message is" if number == 1 else f"{number} messages are"


def _dead(found: list[dict[str, Any]]) -> TextTable:
    return TextTable(
        ("message", "agent", "channel", "who", "asked", "what", "tries", "why"),
        [
            (
                each["data"]["messageId"],
                each["data"]["agent"],
                each["data"]["channel"],
                each["data"]["sender"],
                local_time(each["timestamp"]),
                shorten(each["data"]["message"]),
                each["attemptsMade"],
                shorten(each["failedReason"] or "", 100),
            )
            for each in found
        ],
        "No message was given up.",
    )


def _waiting(found: list[dict[str, Any]]) -> TextTable:
    now_ms = clock.now_ms()
    return TextTable(
        ("message", "agent", "channel", "who", "asked", "what", "not before", "tries", "why"),
        [
            (
                each["messageId"],
                each["agent"],
                each["channel"],
                each["sender"],
                local_time(each["createdAt"]),
                shorten(each["message"]),
                local_time(each["processAfter"]) if (each["processAfter"] or 0) > now_ms else "",
                each["retryCount"] or "",
                shorten(each["lastError"] or "", 100),
            )
            for each in found
        ],
        "Nothing waits.",
    )


def _running(found: list[dict[str, Any]]) -> TextTable:
    return TextTable(
        ("message", "agent", "channel", "who", "what", "since", ""),
        [
            (
                each["messageId"],
                each["agent"],
                each["channel"],
                each["sender"],
                shorten(each["message"]),
                time_span(each["duration"]),
                "" if each["processAlive"] else "its process is gone: it is tried again soon",
            )
            for each in found
        ],
        "Nothing runs.",
    )


def _facts(of: dict[str, Any]) -> dict[str, Any]:
    later = of["processAfter"] if of["status"] == "pending" and (of["processAfter"] or 0) > clock.now_ms() else None
    return {
        "message": of["messageId"],
        "agent": of["agent"],
        "channel": of["channel"],
        "who": " ".join(filter(None, (of["sender"], of["senderId"]))),
        "status": of["status"],
        "tries": of["retryCount"] or None,
        "why": of["lastError"],
        "not before": local_time(later),
        "schedule": of["seriesId"],
        "asked": local_time(of["createdAt"]),
        "changed": local_time(of["updatedAt"]),
        "what": of["message"],
    }
