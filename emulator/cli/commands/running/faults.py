"""``emulator fault``: what happens in the field, on order: something refuses or is slow, a process dies or hangs."""

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.base.faults import KINDS, TARGETS
from emulator.base.hints import STATE, command_line
from emulator.cli import client
from emulator.cli.commands import frame
from emulator.cli.commands.running.calls import read_status
from emulator.cli.output import CommandResult, TextTable, result
from emulator.cli.spans import span_ms
from shared.core.time.durations import time_span

app = frame.group(
    "Let something fail, and see what Postroom does: a platform, a model, the bucket, the disk, the network, a process."
)

_TARGET_HELP = "\n\n".join(f"{name}: {each.help} ({', '.join(each.kinds)})" for name, each in TARGETS.items())
_KIND_HELP = "\n\n".join(f"{name}: {each.help}" for name, each in KINDS.items())
_STATUS_HELP = (
    "Default: " + "; ".join(f"{name} {each.status}" for name, each in TARGETS.items() if "status" in each.kinds) + "."
)
_ONCE = (
    "By default, and without --every, --rate and --for, one call of: "
    + ", ".join(name for name, each in TARGETS.items() if each.of_calls)
    + "; a fault of the others lasts until it is lifted."
)
_METHOD_HELP = "; ".join(f"{name}: {each.method}" for name, each in TARGETS.items() if each.method)


def _one_of(known: Mapping[str, Any], metavar: str, help_: str) -> Any:
    """An argument that is one of the names."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in known:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(known)}")
        return value

    return typer.Argument(metavar=metavar, help=help_, callback=check, autocompletion=lambda: list(known))


State = Annotated[Path, typer.Option(help="The state folder of the emulator.")]
Process = Annotated[str, typer.Argument(help="A function, or s3, or replica (Litestream).")]


@app.command("add")
def add_fault(
    target: Annotated[str, _one_of(TARGETS, "TARGET", _TARGET_HELP)],
    kind: Annotated[str, _one_of(KINDS, "KIND", _KIND_HELP)],
    status: Annotated[int | None, typer.Option(min=400, max=599, help=f"Of the error. {_STATUS_HELP}")] = None,
    retry_after: Annotated[float | None, typer.Option(help="Seconds that a 429 names.")] = None,
    delay: Annotated[str, typer.Option(help="How late, such as 2s.")] = "1s",
    method: Annotated[str | None, typer.Option(help=f"Only these calls. {_METHOD_HELP}.")] = None,
    chat: Annotated[str | None, typer.Option(help="Only this chat of a platform, by its id there.")] = None,
    times: Annotated[
        int | None,
        typer.Option(min=1, help=f"How many calls fail. {_ONCE}"),
    ] = None,
    every: Annotated[int | None, typer.Option(min=1, help="One call in N; 5: one in five.")] = None,
    rate: Annotated[float | None, typer.Option(min=0, max=1, help="By chance this share of the calls: 0.3.")] = None,
    lasts: Annotated[
        str | None, typer.Option("--for", help="For how long, such as 10m, by the clock of this machine.")
    ] = None,
    state: State = STATE,
    as_json: frame.Json = False,
) -> None:
    """Let something fail: once, so often, by chance, for a time, or until you lift it.

    Status, top, the operators' page and the chat page say meanwhile that a fault is set by hand.
    """

    def work() -> CommandResult:
        given = {
            **{"kind": kind, "status": status, "retry_after": retry_after, "delay_ms": _ms("--delay", delay)},
            **{"method": method, "chat": chat, "times": times, "every": every, "rate": rate},
            "for_ms": None if lasts is None else _ms("--for", lasts),
        }
        body = {name: value for name, value in given.items() if value is not None}
        added = client.ask_platforms(state, "POST", f"/control/{target}/faults", body)["fault"]
        lift = command_line(f"fault lift {target} --id {added['id']}", state)
        return result(added, f"{target} {added['sentence']}. To lift it: `{lift}`")

    frame.end_with(work, as_json=as_json)


@app.command("list")
def list_faults(state: State = STATE, as_json: frame.Json = False) -> None:
    """List the faults that are not over."""

    def work() -> CommandResult:
        found = client.ask_platforms(state, "GET", "/control/faults")["faults"]
        rows = [(each["target"], each["id"], each["sentence"]) for each in found]
        return result(found, TextTable(("target", "id", "fault"), rows, "no fault is set"))

    frame.end_with(work, as_json=as_json)


@app.command("lift")
def lift_faults(
    target: Annotated[str | None, _one_of(TARGETS, "[TARGET]", "Only of this target.")] = None,
    id_: Annotated[int | None, typer.Option("--id", help="Only this one, as `list` numbers it.")] = None,
    state: State = STATE,
    as_json: frame.Json = False,
) -> None:
    """Lift faults: all, or those that the options name."""

    def work() -> CommandResult:
        path = "/control/faults" if target is None else f"/control/{target}/faults"
        lifted = client.ask_platforms(state, "DELETE", path + ("" if id_ is None else f"?id={id_}"))["lifted"]
        if id_ is not None and not lifted:
            raise errors.DoesNotExist(f"no fault has the number {id_}: `{command_line('fault list', state)}`")
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
    lasts: Annotated[str, typer.Option("--for", help="For how long, such as 10s.")] = "10s",
    state: State = STATE,
    as_json: frame.Json = False,
) -> None:
    """Stop a process (SIGSTOP) for a while, as a disk or a host does that hangs. Ctrl-C resumes it."""

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
        raise errors.NotReady(f"{process} (process {pid}) has already ended") from None


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
        return span_ms(text)
    except ValueError as error:
        raise errors.InvalidInput(f"{option} {error}") from None
