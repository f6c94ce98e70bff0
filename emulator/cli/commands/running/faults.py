"""``emulator fault``: what happens in the field, on order: a platform that refuses, a process that dies or hangs."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from emulator.base import errors
from emulator.base.hints import STATE, command_line
from emulator.cli import client
from emulator.cli.commands import frame
from emulator.cli.commands.running.calls import read_status
from emulator.cli.output import CommandResult, TextTable, result
from shared.core.time.durations import parse_ms, time_span

app = frame.group("Faults on order: a platform that refuses or is slow, a process that dies or hangs.")

Platform = Literal["telegram", "discord"]
PLATFORMS: tuple[Platform, ...] = ("telegram", "discord")
State = Annotated[Path, typer.Option(help="The state folder of the emulator.")]
Process = Annotated[str, typer.Argument(help="A function, or s3, or replica (Litestream).")]


@app.command("add")
def add_fault(
    platform: Annotated[Platform, typer.Argument(help="The fake platform.")],
    kind: Annotated[
        Literal["status", "delay", "drop", "accept_then_drop"],
        typer.Argument(
            help="status: an error, nothing done; delay: done late; drop: no answer, nothing done; accept_then_drop: "
            "done, no answer."
        ),
    ],
    status: Annotated[int, typer.Option(min=400, max=599, help="Of the error.")] = 500,
    retry_after: Annotated[float | None, typer.Option(help="Seconds that a 429 names.")] = None,
    delay: Annotated[str, typer.Option(help="How late, such as 2s.")] = "1s",
    method: Annotated[str | None, typer.Option(help="Only this method, such as sendMessage.")] = None,
    chat: Annotated[str | None, typer.Option(help="Only this chat, by its id on the platform.")] = None,
    times: Annotated[int | None, typer.Option(min=1, help="So many calls; default: one, or all with --for.")] = None,
    every: Annotated[int | None, typer.Option(min=1, help="Each so-many-th call; 5: one in five.")] = None,
    lasts: Annotated[str | None, typer.Option("--for", help="So long, such as 1m.")] = None,
    state: State = STATE,
    as_json: frame.Json = False,
) -> None:
    """Let calls to a fake platform fail: once, so often, each so-many-th, or for a time."""

    def work() -> CommandResult:
        given = {
            **{"kind": kind, "status": status, "retry_after": retry_after, "delay_ms": _ms("--delay", delay)},
            **{"method": method, "chat": chat, "times": times, "every": every},
            "for_ms": None if lasts is None else _ms("--for", lasts),
        }
        body = {name: value for name, value in given.items() if value is not None}
        added = client.ask_platforms(state, "POST", f"/control/{platform}/faults", body)["fault"]
        lift = command_line(f"fault lift {platform} --id {added['id']}", state)
        return result(added, f"{platform}: {added['sentence']}. To lift it: `{lift}`")

    frame.end_with(work, as_json=as_json)


@app.command("list")
def list_faults(state: State = STATE, as_json: frame.Json = False) -> None:
    """List the faults of the fake platforms that are not over."""

    def work() -> CommandResult:
        found = [
            {"platform": platform, **fault}
            for platform in PLATFORMS
            for fault in client.ask_platforms(state, "GET", f"/control/{platform}/faults")["faults"]
        ]
        rows = [(each["platform"], each["id"], each["sentence"]) for each in found]
        return result(found, TextTable(("platform", "id", "fault"), rows, "no fault stands"))

    frame.end_with(work, as_json=as_json)


@app.command("lift")
def lift_faults(
    platform: Annotated[Platform | None, typer.Argument(help="Only of this platform.")] = None,
    id_: Annotated[int | None, typer.Option("--id", help="Only this one, as `list` numbers it.")] = None,
    state: State = STATE,
    as_json: frame.Json = False,
) -> None:
    """Lift faults of the fake platforms: all, or those that the options name."""

    def work() -> CommandResult:
        if id_ is not None and platform is None:
            raise errors.UsageError("--id needs the platform: each numbers its own faults")
        query = "" if id_ is None else f"?id={id_}"
        lifted = sum(
            client.ask_platforms(state, "DELETE", f"/control/{each}/faults{query}")["lifted"]
            for each in (PLATFORMS if platform is None else (platform,))
        )
        return result({"lifted": lifted}, f"lifted: {lifted}")

    frame.end_with(work, as_json=as_json)


@app.command("kill")
def kill(process: Process, state: State = STATE, as_json: frame.Json = False) -> None:
    """Kill a process (SIGKILL), as the kernel does without memory. The emulator starts another one."""

    def work() -> CommandResult:
        pid = _pid(process, state)
        _send(process, pid, signal.SIGKILL)
        return result({"process": process, "pid": pid}, f"{process} (process {pid}) is killed")

    frame.end_with(work, as_json=as_json)


@app.command("hang")
def hang(
    process: Process,
    lasts: Annotated[str, typer.Option("--for", help="So long, such as 10s.")] = "10s",
    state: State = STATE,
    as_json: frame.Json = False,
) -> None:
    """Stop a process (SIGSTOP) for a while, as a disk or a host does that stands still. Ctrl-C lets it go on."""

    def work() -> CommandResult:
        pid, ms = _pid(process, state), _ms("--for", lasts)
        for number in (signal.SIGTERM, signal.SIGHUP):  # they too let it go on
            signal.signal(number, lambda *_: sys.exit(1))
        _send(process, pid, signal.SIGSTOP)
        try:
            time.sleep(ms / 1000)
        finally:
            _send(process, pid, signal.SIGCONT)
        return result(
            {"process": process, "pid": pid, "ms": ms}, f"{process} (process {pid}) stood for {time_span(ms)}"
        )

    frame.end_with(work, as_json=as_json)


def _send(process: str, pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise errors.NotReady(f"{process} (process {pid}) has ended meanwhile") from None


def _pid(process: str, state: Path) -> int:
    facts = read_status(state)
    pids = {each["name"]: each["pid"] for each in facts["functions"]}
    pids |= {name: facts[name]["pid"] for name in ("s3", "replica")}
    if process not in pids:
        raise errors.DoesNotExist(f"there is no process {process!r}; these run: {', '.join(pids)}")
    if pids[process] is None:
        raise errors.NotReady(f"{process} does not run at the moment")
    return int(pids[process])


def _ms(option: str, text: str) -> int:
    try:
        return parse_ms(text)
    except ValueError as error:
        raise errors.InvalidInput(f"{option} {error}") from None
