"""``emulator clock``: the one clock of an emulator, to be moved, stopped, or let run faster."""

from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.base.clock_page import ClockPage
from emulator.base.hints import STATE
from emulator.base.state import StateFolder, find_running
from emulator.cli import client
from emulator.cli.commands import frame
from emulator.cli.commands.filters import instant_ms
from emulator.cli.output import CommandResult, local_time, result
from emulator.cli.spans import span_ms, timeout_option
from shared.core.time import clock as machine
from shared.core.time.durations import TooLong

app = typer.Typer(
    invoke_without_command=True,
    help="The one clock of functions, ticks, fakes, leases and prompts: move it, stop it, let it run faster.",
)
State = Annotated[Path, typer.Option(help="The state folder of the emulator.")]


@app.callback()
def _shown(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        show()


@app.command("show")
def show(state: State = STATE, as_json: frame.Json = False) -> None:
    """Show what the clock says, also of an emulator that does not run."""

    def work() -> CommandResult:
        folder = StateFolder(state.resolve())
        if not folder.clock.exists():
            facts = {"now": machine.machine_ms(), "ahead_ms": 0, "frozen": False, "speed": 1, "sentence": None}
        else:
            facts = ClockPage(folder.clock).facts.as_dict()
        return result(facts, _said(facts, state))

    frame.end_with(work, as_json=as_json)


@app.command("jump")
def jump(
    by: Annotated[str | None, typer.Argument(metavar="[SPAN]", help="How far, such as 90s, 30m, 8h or 7d.")] = None,
    to: Annotated[
        str | None, typer.Option(metavar="WHEN", help="To this instant: 2027-01-31T09:00, or with Z or a zone.")
    ] = None,
    leap: Annotated[
        bool, typer.Option("--leap", help="At once, as after a pause: what was due meanwhile is late or missed.")
    ] = False,
    timeout: Annotated[float, timeout_option("How long what is due at one instant may take", "10m")] = 600.0,
    state: State = STATE,
    as_json: frame.Json = False,
) -> None:
    """Move the clock, and stop wherever something is due on the way, until that is done. Ctrl-C ends it there."""

    def work() -> CommandResult:
        if (by is None) == (to is None):
            raise errors.UsageError("say how far, such as `jump 7d`, or where, such as `jump --to 2027-01-31T09:00`")
        facts = client.move_clock(state, {"move": "jump", **_where(by, to), "leap": leap, "limit": timeout})
        stops = facts["stops"]
        done = "" if leap else f"; something was due at {stops} instant{'' if stops == 1 else 's'} on the way"
        return result(facts, _said(facts, state) + done)

    frame.end_with(work, as_json=as_json)


@app.command("freeze")
def freeze(state: State = STATE, as_json: frame.Json = False) -> None:
    """Freeze the clock: nothing more becomes due. A jump still moves it."""
    frame.end_with(lambda: _simple(state, {"move": "freeze"}), as_json=as_json)


@app.command("resume")
def resume(state: State = STATE, as_json: frame.Json = False) -> None:
    """Let the clock run on from where it is, at the pace of a real one."""
    frame.end_with(lambda: _simple(state, {"move": "speed", "speed": 1}), as_json=as_json)


@app.command("speed")
def speed(
    times: Annotated[int, typer.Argument(min=1, max=100_000, metavar="TIMES", help="60: an hour in a minute.")],
    state: State = STATE,
    as_json: frame.Json = False,
) -> None:
    """Let the clock run so many times as fast. It waits for what is due on the way; 10080 is a week in a minute."""
    frame.end_with(lambda: _simple(state, {"move": "speed", "speed": times}), as_json=as_json)


@app.command("reset")
def reset(
    force: Annotated[bool, typer.Option("--force", help="Even if there are rows of a later instant.")] = False,
    state: State = STATE,
    as_json: frame.Json = False,
) -> None:
    """Let it be the machine's clock again, if no row is of a later instant."""
    frame.end_with(lambda: _simple(state, {"move": "reset", "force": force}), as_json=as_json)


def _simple(state: Path, body: dict[str, Any]) -> CommandResult:
    facts = client.move_clock(state, body)
    return result(facts, _said(facts, state))


def _said(facts: dict[str, Any], state: Path) -> str:
    if facts["sentence"] is None:
        return f"it is the machine's clock: {local_time(facts['now'])}"
    running = "" if find_running(StateFolder(state.resolve())) else "; no emulator runs there"
    return f"{facts['sentence']} ({local_time(facts['now'])} here){running}"


def _where(by: str | None, to: str | None) -> dict[str, int]:
    if to is not None:
        return {"to": instant_ms("--to", to, "2027-01-31T09:00, or with Z at its end")}
    try:
        return {"by": span_ms(by or "")}
    except TooLong as error:
        raise errors.InvalidInput(str(error)) from None
    except ValueError:
        raise errors.InvalidInput(f"{by!r} is no span of time: write 90s, 30m, 8h or 7d") from None
