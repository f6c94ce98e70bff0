"""The ``emulator`` command: all of Postroom on this machine, without any account.

The exit codes of its own failures are in :mod:`emulator.base.errors`; ``exec`` ends with exactly its command's code.
"""

import asyncio
import contextlib
import errno
import os
import signal
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from emulator.base import errors
from emulator.base.errors import EmulatorError, ExitCode
from emulator.base.fakes import PLATFORMS, unknown
from emulator.base.hints import STATE, command_line
from emulator.base.options import RunOptions
from emulator.base.state import StateFolder, find_running
from emulator.cli.examples import show_in_help
from emulator.cli.help_order import in_order
from emulator.cli.run import TEMPLATE, RunRequest, end_with, fail, first_of, run_emulator, say, until_signalled
from emulator.cli.spans import timeout_option
from shared.core.text.validation import without_prefix

if TYPE_CHECKING:
    from emulator.base.past_question import PastQuestion

EXEC_READY_LIMIT_S = 60.0


class PlainGroup(TyperGroup):
    """Commands in the order in which a person meets them, with usage errors in our words.

    typer checks with pydantic, which begins its errors with its own words.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return in_order(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, whose help ends with examples."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            show_in_help(found, cmd_name)
        return found

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = without_prefix(error.message)
            raise
        except EmulatorError as error:
            fail(str(error), error.exit_code)
        except OSError as error:
            if error.errno == errno.EPIPE:  # `| head`: typer ends the command
                raise
            fail(errors.what_was_refused(error), ExitCode.OS_ERROR)


app = typer.Typer(
    cls=PlainGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Postroom on this machine: functions, ticks, replica and fake chat platforms. Start with `emulator run`.",
    epilog="Each command shows its options and an example: `emulator chat --help`.\n\n"
    "Something is wrong? `emulator status`, then `emulator why MESSAGE`. What the exit codes mean: docs/cli.md.",
)


def _add_commands() -> None:
    from emulator.cli import commands  # a tenth of a second, for which a start would wait

    commands.add_to(app)


if sys.argv[1:2] not in (["run"], ["exec"]):
    _add_commands()


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from emulator.cli.commands.version import version  # late, as all commands

        version()
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the versions, and end.")
    ] = False,
) -> None:
    """Options of the command as a whole."""


Port = Annotated[int, typer.Option(min=0, max=65535, help="The gateway's port; if it is in use, the next free one.")]
State = Annotated[Path, typer.Option(help="The folder that keeps the database, the bucket and the chats.")]
Ephemeral = Annotated[bool, typer.Option("--ephemeral", help="Keep nothing: use a temporary state folder.")]
Template = Annotated[Path, typer.Option(help="The file that names functions, routes and ticks.")]
NoWatch = Annotated[bool, typer.Option("--no-watch", help="Do not reload files when they are saved.")]
Log = Annotated[
    Literal["pretty", "json"] | None,
    typer.Option(help="The form of the output; default: pretty on a terminal, else json."),
]
LogLines = Annotated[bool, typer.Option("--json", help="The log as JSON lines, as --log json.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only that it is ready, and errors. The log file has everything.")
]
Relay = Annotated[
    bool, typer.Option("--relay", help="Run the relay of Discord's Gateway too, for what people type there.")
]
Replica = Annotated[
    str | None,
    typer.Option(
        "--from-replica",
        help="Open the past of this replica: s3://bucket/path or file:///folder. It is only read.",
    ),
]
Timestamp = Annotated[str | None, typer.Option(help="Of the past: an instant such as 2026-03-01T12:00:00Z.")]
Txid = Annotated[str | None, typer.Option(help="Of the past: a position, as Litestream numbers it.")]
Epoch = Annotated[str | None, typer.Option(help="Of the past: only in this history of the replica.")]
Detach = Annotated[
    bool, typer.Option("--detach", "-d", help="Start it in the background, and end when it is ready; see `stop`.")
]
Host = Annotated[str, typer.Option(help="127.0.0.1 or localhost: the emulator serves this machine only.")]


@app.command()
def run(
    context: typer.Context,
    port: Port = 8080,
    state: State = STATE,
    ephemeral: Ephemeral = False,
    template: Template = TEMPLATE,
    no_watch: NoWatch = False,
    log: Log = None,
    detach: Detach = False,
    as_json: LogLines = False,
    quiet: Quiet = False,
    host: Host = "127.0.0.1",
    relay: Relay = False,
    from_replica: Replica = None,
    timestamp: Timestamp = None,
    txid: Txid = None,
    epoch: Epoch = None,
) -> None:
    """Start everything, in the foreground: Ctrl-C stops it and leaves nothing behind.

    With --from-replica, the past of a Postroom: to look at, and to replay conversations with another agent.
    """
    _only_loopback(host)
    question, state = _past(from_replica, timestamp, txid, epoch, state, is_ephemeral=ephemeral)
    folder = _state(state, ephemeral)
    options = RunOptions(Path.cwd(), template.resolve(), folder, port, not no_watch, not ephemeral, relay, question)
    if detach:
        from emulator.cli.detached import run_detached  # late: most starts are in the foreground

        raise typer.Exit(run_detached(folder, is_kept=not ephemeral))
    asked = RunRequest(options, "json" if as_json else log, state, quiet)
    if context.obj is not None:
        context.obj(asked)
    else:
        run_emulator(lambda: asked)


@app.command(
    "exec",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
)
def execute(
    context: typer.Context,
    port: Port = 8080,
    state: State = STATE,
    ephemeral: Ephemeral = False,
    template: Template = TEMPLATE,
    host: Host = "127.0.0.1",
) -> None:
    """Run `-- CMD …` against a ready emulator (the running one, else a new one) and end with its exit code."""
    _only_loopback(host)
    command = context.args[1:] if context.args[:1] == ["--"] else context.args
    if not command:
        fail(f"exec needs a command, such as: {command_line('exec -- pytest -q')}", ExitCode.USAGE)
    folder = _state(state, ephemeral)

    async def against() -> int:
        instance = find_running(folder)
        if instance is not None:
            return await _against_running(folder, command)
        return await _against_own(folder, command, port=port, template=template.resolve(), is_kept=not ephemeral)

    end_with(against)


@app.command()
def chat(
    platform: Annotated[str, typer.Argument(help=f"{', '.join(PLATFORMS)}, or an account such as telegram.sales")],
    words: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]", help="As --once TEXT.")] = None,
    name: Annotated[str, typer.Option("--as", help="Write as this person, by name or id.")] = "Ana",
    place: Annotated[
        str | None, typer.Option("--in", help="The group or channel; without it, the direct chat with the bot.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="The topic of the group, by name.")] = None,
    once: Annotated[str | None, typer.Option(help="Send this, print the replies, and end.")] = None,
    timeout: Annotated[float, timeout_option("How long to wait for a reply", "30s")] = 30.0,
    state: State = STATE,
    as_json: Annotated[bool, typer.Option("--json", help="Print each event of the chat as a JSON line.")] = False,
) -> None:
    """Talk to your agent in this terminal through a fake platform.

    `/press 1` presses a button, `/press` lists them; `/file PATH`, `/voice PATH`, `/edit TEXT`, `/delete`, `/react 👍`
    and `/reply TEXT` do what the apps do.
    """
    from emulator.cli.chat import run_chat
    from emulator.cli.client import door_headers

    if words and once is not None:
        fail("the text is given twice: leave out --once, or the words behind the platform", ExitCode.USAGE)
    if words:
        once = " ".join(words)
    kind = platform.partition(".")[0]
    if kind not in PLATFORMS:
        fail(unknown(kind), ExitCode.USAGE)
    instance = find_running(StateFolder(state.resolve()))
    if not instance:
        fail(
            f"no emulator is running in {state}: start it with `{command_line('run', state)}`, in another terminal",
            ExitCode.UNAVAILABLE,
        )
    if instance.get("past"):
        fail(
            f"{instance['past']['sentence']}: no agent answers there. To let one answer what people wrote then: "
            f"`{command_line('replay SESSION', state)}`",
            ExitCode.REFUSED,
        )
    code = run_chat(
        platform,
        base_url=instance["urls"]["gateway"],
        person=name,
        once=once,
        timeout_s=timeout,
        chat=place,
        topic=topic,
        state=state,
        headers=door_headers(instance),
        as_json=as_json,
    )
    raise typer.Exit(code)


async def _against_own(folder: StateFolder, command: list[str], *, port: int, template: Path, is_kept: bool) -> int:
    """Start everything quietly, run the command, stop everything."""
    from emulator.base.console import Console
    from emulator.system.supervisor import Supervisor

    begun = time.monotonic()
    options = RunOptions(Path.cwd(), template, folder, port, watch=False, is_kept=is_kept)
    supervisor = Supervisor(options, Console("json", sys.stdout, quiet=True))
    code = 0
    async with until_signalled() as signalled:
        try:
            async with asyncio.timeout(EXEC_READY_LIMIT_S):
                if not await first_of(supervisor.start(), signalled):
                    return 128 + (signalled.result() or signal.SIGTERM)
            ready_s = time.monotonic() - begun
            code = await _run_command(command, supervisor.status.environment(), signalled)
        except TimeoutError:
            raise errors.TimedOut(
                f"the emulator was not ready within {EXEC_READY_LIMIT_S:.0f} s; its log is {folder.log_file}"
            ) from None
        finally:
            stopping = time.monotonic()
            await supervisor.stop()
    kept = f"state kept in {folder.path}" if is_kept else "state deleted"
    stop_s = time.monotonic() - stopping
    say(f"emulator: ready in {ready_s:.1f} s; command exited {code}; stopped in {stop_s:.1f} s; {kept}")
    return code


async def _against_running(folder: StateFolder, command: list[str]) -> int:
    """Run the command against the emulator that runs in the folder."""
    from emulator.cli.client import get_json

    deadline = time.monotonic() + EXEC_READY_LIMIT_S
    while True:
        instance = find_running(folder)
        if instance is None:
            raise errors.NotReady(f"the emulator in {folder.path} has just ended: try again")
        if instance and get_json(instance["urls"]["gateway"], "/_emulator/ready") == {"status": "ready"}:
            break
        if time.monotonic() > deadline:
            raise errors.TimedOut(
                f"the emulator in {folder.path} is not ready; to see why: `{command_line('status', folder.path)}`"
            )
        await asyncio.sleep(0.05)
    async with until_signalled() as signalled:
        code = await _run_command(command, instance["environment"], signalled)
    say(f"emulator: command exited {code}; it ran against emulator[{instance['pid']}], which still runs")
    return code


async def _run_command(command: list[str], environment: dict[str, str], signalled: "asyncio.Future[int]") -> int:
    """Run the command in this terminal; returns its code, or 128 + signal. Signals to us are passed on to it."""
    environ = {name: value for name, value in os.environ.items() if name not in ("AWS_CA_BUNDLE", "AWS_PROFILE")}
    try:
        process = await asyncio.create_subprocess_exec(*command, env=environ | environment)
    except FileNotFoundError:
        say(f"emulator: {command[0]}: command not found")
        return 127
    except PermissionError:
        say(f"emulator: {command[0]}: not executable")
        return 126
    ended: asyncio.Future[int] = asyncio.ensure_future(process.wait())
    await asyncio.wait([ended, signalled], return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signalled.result())
    code = await ended
    return 128 - code if code < 0 else code


def _past(
    replica: str | None, timestamp: str | None, txid: str | None, epoch: str | None, state: Path, *, is_ephemeral: bool
) -> tuple["PastQuestion | None", Path]:
    """The past that is asked for, and its state folder: a fresh one, unless another than the default is named."""
    from emulator.base import past_question

    try:
        question = past_question.check(replica, timestamp, txid, epoch, now=datetime.now(UTC))
        if question is None or is_ephemeral or state.resolve() != STATE.resolve():
            return question, state
        if question.timestamp is None and question.txid is None:
            from emulator.storage import past

            question = replace(question, txid=past.find(question).txid)
        folder = question.folder(question.txid or "")
    except EmulatorError as error:
        fail(str(error), error.exit_code)
    return question, folder


def _state(state: Path, ephemeral: bool) -> StateFolder:
    if ephemeral:
        return StateFolder(Path(tempfile.mkdtemp(prefix="postroom-")))
    return StateFolder(state.resolve())


def _only_loopback(host: str) -> None:
    if host not in ("127.0.0.1", "localhost"):
        fail(
            f"the emulator listens on 127.0.0.1 only, not on {host}, because it has no passwords. To give "
            "another person the API, set POSTROOM_API_TOKEN and put a tunnel in front of the gateway; to serve people, "
            "deploy (infra/README.md)",
            ExitCode.REFUSED,
        )
