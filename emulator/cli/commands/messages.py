"""``emulator queue`` and ``emulator messages``: the queue in numbers, and its messages."""

from typing import Annotated, Any, Literal

import typer

from emulator.base import errors
from emulator.base.errors import EmulatorError
from emulator.cli.client import RestClient
from emulator.cli.commands import filters
from emulator.cli.commands.frame import command, group
from emulator.cli.commands.roster.agents import paused_lines
from emulator.cli.output import (
    CommandResult,
    FactList,
    TextTable,
    in_dollars,
    local_time,
    readable,
    result,
    shorten,
)
from shared.core.time import clock

app = group("Messages to agents: pending, running or dead, and the history of each.")

Id = Annotated[str, typer.Argument(metavar="MESSAGE", help="Its id, such as telegram_1a2b3c4d.")]


def show_queue(api: RestClient) -> CommandResult:
    """Show the queue in numbers: pending, running and dead messages, in total and for each agent; and paused agents."""
    found, agents = api.get("queue", "status"), api.get("queue", "agents")
    facts = {
        "pending": found["incoming"],
        "running": found["processing"],
        "dead": found["dead"],
        "completed": found["completed"],
        "responses to send": found["outgoing"],
    }
    rows = [(each["agent"], each["pending"], each["processing"]) for each in agents]
    table = TextTable(("agent", "pending", "running"), rows, "No message waits for an agent.")
    ways = (f"To see the dead messages: {api.command_line('messages list')}",) if found["dead"] else ()
    known = api.get("agents")
    pauses = {id_: each["paused"] for id_, each in known.items() if "paused" in each}
    all_facts = {**found, "agents": agents, "paused": pauses}
    return result(all_facts, FactList(facts), table, *paused_lines(api, known), *ways)


_LISTS = {"dead": "dead", "processing": "running", "pending": "waiting", "completed": "done"}


@command(app, "list")
def list_messages(
    api: RestClient,
    status: Annotated[
        Literal["dead", "processing", "pending", "completed"],
        typer.Option(
            help="dead: all attempts failed; processing: running now; pending: waiting; completed: over.",
        ),
    ] = "dead",
    chosen: filters.Agent = None,
    chat: filters.Chat = None,
    person: filters.Person = None,
    channel: filters.Channel = None,
    reason: filters.Reason = None,
    since: filters.Instant = None,
    until: filters.Until = None,
    before: filters.Before = None,
    limit: filters.Limit = 100,
) -> CommandResult:
    """List messages in one state, newest first, each with the reason, until when, and what to do."""
    given = filters.given(chosen, chat, person, channel, reason, since, until, before)
    found = api.get("lists", _LISTS[status], limit=limit, **given)
    again = api.command_line("messages retry MESSAGE")
    ways = [f"To retry one: {again} (to retry all: --all)"] if found and status == "dead" else []
    if len(found) == limit:
        ways.append(f"Older ones: --before {found[-1]['row']}")
    word = {"processing": "running"}.get(status, status)
    return result(found, _table(found, f"There is no {word} message{' like this' if given else ''}."), *ways)


@command(app, "show")
def show_message(api: RestClient, message: Id) -> CommandResult:
    """Show one message, its responses and its events."""
    found = api.get("messages", message)
    answers = TextTable(
        ("response", "agent", "status", "attempts", "text", "error"),
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
        "There is no response to it.",
    )
    events = TextTable(
        ("when", "event", "response", "data"),
        [
            (local_time(each["timestamp"]), each["type"], each.get("responseId"), readable(each["data"]))
            for each in found["events"]
        ],
        "",
    )
    used = TextTable(
        ("model", "paid by", "requests", "input", "output", "cache", "cost"),
        [
            (
                each["model"],
                each["paidBy"],
                each["requests"],
                each["input"],
                each["output"],
                each["cacheRead"] + each["cacheWrite"],
                in_dollars(each["cost"]),
            )
            for each in found["usage"]
        ],
        "",
    )
    return result(found, FactList(_facts(found)), answers, *([used] if found["usage"] else []), events)


@command(app, "retry")
def retry(
    api: RestClient,
    message: Annotated[str | None, typer.Argument(metavar="[MESSAGE]", help="Its id; or use --all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All dead messages.")] = False,
) -> CommandResult:
    """Retry a dead message now, with a new set of attempts."""
    if (message is None) is not every:
        raise errors.UsageError("name a message, or use --all")
    if message is not None:
        return result(api.post("queue", "dead", _dead_row(api, message), "retry"), f"Message {message} is retried.")
    tried = api.retry_all("queue")
    return result({"retried": tried}, f"{_count(len(tried))} retried.")


@command(app, "discard")
def discard(api: RestClient, message: Id) -> CommandResult:
    """Discard a dead message: its text is deleted, and it can't be retried."""
    return result(api.delete("queue", "dead", _dead_row(api, message)), f"Message {message} is discarded.")


@command(app, "cancel")
def cancel(api: RestClient, message: Id) -> CommandResult:
    """Cancel a pending or running message; its turn is stopped. A schedule continues."""
    return result(api.post("messages", message, "cancel"), f"Message {message} is cancelled.")


def _dead_row(api: RestClient, message: str) -> int:
    found = api.get("messages", message)
    if found["status"] != "dead":
        raise EmulatorError(f"message {message} is {found['status']}, not dead")
    row: int = found["id"]
    return row


def _count(number: int) -> str:
    return "1 message is" if number == 1 else f"{number} messages are"


def _table(found: list[dict[str, Any]], empty: str) -> TextTable:
    return TextTable(
        ("message", "agent", "channel", "sender", "received", "text", "attempts", "why", "until"),
        [
            (
                each["id"],
                each["agent"],
                each["channel"],
                each["sender"],
                local_time(each["createdAt"]),
                shorten(each["text"]),
                each["attempts"] or "",
                each["reason"],
                local_time(each["until"]),
            )
            for each in found
        ],
        empty,
    )


def _facts(of: dict[str, Any]) -> dict[str, Any]:
    later = of["processAfter"] if of["status"] == "pending" and (of["processAfter"] or 0) > clock.now_ms() else None
    return {
        "message": of["messageId"],
        "agent": of["agent"],
        "channel": of["channel"],
        "sender": " ".join(filter(None, (of["sender"], of["senderId"]))),
        "status": of["status"],
        "attempts": of["retryCount"] or None,
        "error": of["lastError"],
        "not before": local_time(later),
        "schedule": of["seriesId"],
        "received": local_time(of["createdAt"]),
        "changed": local_time(of["updatedAt"]),
        "text": of["message"],
    }
