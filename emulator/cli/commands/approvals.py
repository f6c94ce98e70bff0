"""``emulator approvals``: what waits for somebody's yes or no."""

from typing import Annotated, Any, Literal

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import CommandResult, FactList, Part, TextTable, local_time, result, shorten, time_span
from shared.core import clock

app = group("Approvals: what waits for somebody's yes or no, and what became of it.")

Id = Annotated[str, typer.Argument(metavar="APPROVAL", help="Its id: approval_...")]
Status = Literal["pending", "approved", "refused", "expired", "all"]


@command(app, "list")
def list_approvals(
    api: RestClient,
    status: Annotated[Status, typer.Option(help="Only these.")] = "pending",
    limit: Limit = 100,
) -> CommandResult:
    """What waits for a yes, newest first."""
    found = api.get("approvals", status=None if status == "all" else status, limit=limit)
    now_ms = clock.now_ms()
    table = TextTable(
        ("approval", "kind", "what", "agent", "held", "asked", "state"),
        [
            (
                each["approvalId"],
                each["kind"],
                shorten(each["title"]),
                each["agent"],
                each["held"] or "",
                f"{time_span(now_ms - each['createdAt'])} ago",
                _state(each, now_ms),
            )
            for each in found
        ],
        "Nothing waits for anybody's yes." if status == "pending" else "There is no such approval.",
    )
    return result(found, table)


@command(app, "show")
def show_approval(api: RestClient, approval: Id) -> CommandResult:
    """One approval, with every argument of what is asked for, and what may be chosen."""
    found = api.get("approvals", approval)
    options = TextTable(
        ("choice", "which is", ""),
        [(number, option, _chosen(found, number)) for number, option in enumerate(found["options"], 1)],
        "It has no options.",
    )
    parts: list[Part] = [FactList(_facts(found)), FactList(found["payload"]), options]
    if found["status"] != "pending":
        return result(found, *parts)
    yes, no = api.command_line(f"approvals approve {approval}"), api.command_line(f"approvals refuse {approval}")
    return result(found, *parts, f"`{yes}` takes choice 1 (another: --choice N); `{no}` the last.")


@command(app, "approve")
def approve(
    api: RestClient,
    approval: Id,
    choice: Annotated[int | None, typer.Option(min=1, help="Of several options, as `show` numbers them.")] = None,
) -> CommandResult:
    """Say yes. What follows is done by the time this ends: a held message goes on its way, an action is carried out."""
    if choice is None:
        return _decide(api, approval, {"approve": True})
    options = api.get("approvals", approval)["options"]
    if choice > len(options):
        raise errors.InvalidInput(f"approval {approval} has {len(options)} choices, and {choice} is none of them")
    return _decide(api, approval, {"choice": choice - 1})


@command(app, "refuse")
def refuse(api: RestClient, approval: Id) -> CommandResult:
    """Say no. What was held for it is given up, and whoever asked is told."""
    return _decide(api, approval, {"approve": False})


def _decide(api: RestClient, approval: str, decision: dict[str, Any]) -> CommandResult:
    done = api.post("approvals", approval, "decide", body=decision)
    if done["problem"]:
        return result(done, done["sentence"], f"It is decided, but could not be done: {done['problem']}", code=1)
    return result(done, done["sentence"])


def _facts(of: dict[str, Any]) -> dict[str, Any]:
    return {
        "approval": of["approvalId"],
        "what": of["title"],
        "kind": of["kind"],
        "agent": of["agent"],
        "chat": of["chatId"],
        "user": of["userId"],
        "session": of["sessionId"],
        "messages held": of["held"],
        "asked": local_time(of["createdAt"]),
        "state": _state(of, clock.now_ms()),
        "shown to user": of["approver"] or ("nobody yet" if of["status"] == "pending" else None),
    }


def _state(of: dict[str, Any], now_ms: int) -> str:
    if of["status"] == "pending":
        left = of["expiresAt"] - now_ms
        return f"pending, {time_span(left)} left" if left > 0 else "pending, and too old"
    by = f" by {of['decidedBy']}" if of["decidedBy"] else ""
    return f"{of['status']}{by}, {local_time(of['updatedAt'])}"


def _chosen(of: dict[str, Any], number: int) -> str:
    return "chosen" if of["choice"] == number - 1 else ""
