"""``emulator approvals``: requests that wait for a decision."""

from typing import Annotated, Any, Literal

import typer

from emulator.base import errors
from emulator.base.errors import ExitCode
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import (
    CommandResult,
    FactList,
    Part,
    TextTable,
    local_time,
    readable,
    result,
    shorten,
)
from shared.core.time import clock
from shared.core.time.durations import time_span

app = group("Approvals: requests that wait for a decision, and past decisions.")

Id = Annotated[str, typer.Argument(metavar="APPROVAL", help="Its id: approval_...")]
Status = Literal["pending", "approved", "refused", "expired", "all"]


@command(app, "list")
def list_approvals(
    api: RestClient,
    status: Annotated[Status, typer.Option(help="Only approvals with this status.")] = "pending",
    limit: Limit = 100,
) -> CommandResult:
    """List the pending approvals, newest first."""
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
        "No approval is pending." if status == "pending" else "There is no such approval.",
    )
    return result(found, table)


@command(app, "show")
def show_approval(api: RestClient, approval: Id) -> CommandResult:
    """Show one approval with all arguments of the request and all choices."""
    found = api.get("approvals", approval)
    options = TextTable(
        ("choice", "meaning", ""),
        [(number, option, _chosen(found, number)) for number, option in enumerate(found["options"], 1)],
        "It has no options.",
    )
    parts: list[Part] = [FactList(_facts(found)), FactList(readable(found["payload"])), options]
    if found["status"] != "pending":
        return result(found, *parts)
    yes, no = api.command_line(f"approvals approve {approval}"), api.command_line(f"approvals refuse {approval}")
    return result(found, *parts, f"`{yes}` takes choice 1 (another: --choice N); `{no}` takes the last.")


@command(app, "approve")
def approve(
    api: RestClient,
    approval: Id,
    choice: Annotated[int | None, typer.Option(min=1, help="The number of the choice, as `show` lists them.")] = None,
) -> CommandResult:
    """Approve. When this command ends, held messages are on their way and the action is done."""
    if choice is None:
        return _decide(api, approval, {"approve": True})
    options = api.get("approvals", approval)["options"]
    if choice > len(options):
        raise errors.InvalidInput(f"approval {approval} has no choice {choice}: choose from 1 to {len(options)}")
    return _decide(api, approval, {"choice": choice - 1})


@command(app, "refuse")
def refuse(api: RestClient, approval: Id) -> CommandResult:
    """Refuse. Held messages are dropped, and the requester is notified."""
    return _decide(api, approval, {"approve": False})


def _decide(api: RestClient, approval: str, decision: dict[str, Any]) -> CommandResult:
    done = api.post("approvals", approval, "decide", body=decision)
    if done["problem"]:
        return result(
            done,
            done["sentence"],
            f"The decision is recorded, but the action failed: {done['problem']}",
            code=ExitCode.FAILED,
        )
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
        "shown to user": of["approver"] or ("no user yet" if of["status"] == "pending" else None),
    }


def _state(of: dict[str, Any], now_ms: int) -> str:
    if of["status"] == "pending":
        left = of["expiresAt"] - now_ms
        return f"pending, {time_span(left)} left" if left > 0 else "pending, past its time"
    by = f" by {of['decidedBy']}" if of["decidedBy"] else ""
    return f"{of['status']}{by}, {local_time(of['updatedAt'])}"


def _chosen(of: dict[str, Any], number: int) -> str:
    return "chosen" if of["choice"] == number - 1 else ""
