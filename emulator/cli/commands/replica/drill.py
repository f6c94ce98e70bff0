"""``emulator replica drill``: proves that what is in the bucket is the database, with or without a dead writer."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emulator.base import errors
from emulator.base.errors import ExitCode
from emulator.base.terminal import escape
from emulator.cli import output
from emulator.cli.commands import frame
from emulator.cli.commands.replica import hosts
from emulator.cli.commands.replica.load import Load
from emulator.cli.commands.replica.status import size
from emulator.cli.output import CommandResult, FactList, TextTable, result
from shared.core.errors import PostroomError
from shared.core.time import clock

if TYPE_CHECKING:
    from infra.litestream import Comparison, DrillResult

DIFFERS = ExitCode.INVALID
_WARNING = (
    "This kills every function and Litestream with SIGKILL, in the midst of their work. The last commits may exist in "
    "the database file only until they are back"
)

NoKill = Annotated[bool, typer.Option("--no-kill", help="Kill nothing: restore the present position, and compare.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Rate = Annotated[int, typer.Option("--load", min=0, max=200, help="Messages a second, for five seconds and the kill.")]
Folder = Annotated[Path | None, typer.Option(help="Where to restore to; default: a temporary folder.")]
Production = Annotated[
    bool, typer.Option("--kill-production", help="Kill on a production host; its service manager must restart it.")
]


def drill(
    state: frame.State = None,
    no_kill: NoKill = False,
    yes: Yes = False,
    load: Rate = 0,
    folder: Folder = None,
    kill_production: Production = False,
    as_json: frame.Json = False,
) -> None:
    """Kill the writer, restore elsewhere from the bucket alone, compare every table, and bring everything back.

    Ends with 0 if the restore is the database, or an earlier state of it; 65 if it differs or is damaged.
    """

    def work() -> CommandResult:
        host = hosts.find(state, os.environ)
        if no_kill:
            return _without_killing(host)
        if not host.is_emulator and not kill_production:
            raise errors.Unsafe(
                f"{host.database} is a production database, and this kills its functions: use --no-kill, which "
                f"also proves the replica and disturbs no one. To kill anyway: --kill-production"
            )
        _confirm(yes, host)
        return _with_a_kill(host, load, folder, quiet=as_json)

    command_result = frame.run_or_fail(work)
    output.write(command_result, as_json=as_json)
    raise typer.Exit(command_result.code)


def _confirm(is_confirmed: bool, host: hosts.DrillHost) -> None:
    if is_confirmed:
        return
    if not sys.stdin.isatty():
        raise errors.UsageError(f"{_WARNING}: confirm with --yes")
    if not typer.confirm(f"{_WARNING}. Kill the writer of {host.database}?", err=True):
        raise typer.Exit(ExitCode.FAILED)


def _without_killing(host: hosts.DrillHost) -> CommandResult:
    from infra.litestream import compare_with_restore, comparison_facts  # slow imports that no other command needs

    try:
        found = compare_with_restore(host.database, host.replica, host.socket, host.environ, made_by="drill")
    except PostroomError as error:
        raise errors.NotReady(f"the drill could not compare: {error}") from None
    return _describe_comparison(found, comparison_facts(found))


def _describe_comparison(found: "Comparison", facts: dict[str, Any]) -> CommandResult:
    steps = FactList(
        {
            "restored": f"position {found.position} of {found.replica.partition('?')[0]}",
            "compared": f"{found.rows} rows in {found.tables} tables, {size(found.bytes)}",
            "lost": "nothing" if found.is_equal else found.damage or _tables(found),
            "writers waited": f"{found.kept_s * 1000:.0f} ms",
            "restore": f"{found.restore_s:.2f} s",
            "in all": f"{found.seconds:.2f} s",
        }
    )
    if found.is_equal:
        return result(facts, "The restore is the database. Nothing was killed.", steps)
    return result(facts, "The restore is NOT the database. Nothing was killed.", steps, code=DIFFERS)


def _tables(found: "Comparison") -> str:
    return f"these tables differ: {', '.join(each.table for each in found.differences)}"


def _with_a_kill(host: hosts.DrillHost, rate: int, folder: Path | None, *, quiet: bool) -> CommandResult:
    from infra.litestream import DeadWriter, DrillRefused, check_room, present_prefix

    say = _silent if quiet else _say
    with _restore_folder(folder) as target:
        try:
            check_room(host.database, target)
            prefix = present_prefix(host.replica, host.environ)
        except DrillRefused as error:
            raise errors.NotReady(f"{error}. Nothing was killed") from None
        begun_s = time.monotonic()
        with Load(host.chat_url, rate) as load:
            load.wait()
            kill_s, killed = _time(host.kill)
        say(f"killed {killed} in {kill_s:.2f} s")
        try:
            writer = DeadWriter(host.database)
            try:
                found = writer.restore_and_compare(host.replica, prefix, target, host.environ)
            finally:
                writer.close()
            say(f"restored position {found.position or '(none)'} from the bucket alone in {found.restore_s:.2f} s")
        finally:
            say("bringing everything back …")
            back_s, _ = _time(host.revive)
        total_s = time.monotonic() - begun_s
        _record(host, found, total_s)
    return _describe_drill(found, {"kill": kill_s, "back": back_s, "total": total_s}, load.facts())


def _record(host: hosts.DrillHost, found: "DrillResult", total_s: float) -> None:
    from infra.litestream import record_proof

    record_proof(host.database, found.as_proof(clock.now_ms(), total_s))


def _describe_drill(found: "DrillResult", seconds: Mapping[str, float], load: Mapping[str, int]) -> CommandResult:
    is_proof = found.outcome in ("equal", "behind")
    steps = {
        "kill": f"{seconds['kill']:.2f} s",
        "restore": f"{found.restore_s:.2f} s, position {found.position or '(none)'} of {found.replica}",
        "check": f"{found.check_s:.2f} s, integrity and foreign keys",
        "compare": f"{found.compare_s:.2f} s, {found.rows} rows in {found.tables} tables, {size(found.bytes)}",
        "back": f"{seconds['back']:.2f} s, all functions and a full copy in the bucket",
        "in all": f"{seconds['total']:.2f} s",
        "load": f"{load['accepted']} messages accepted, {load['refused']} refused" if load["sent"] else None,
        "lost": _lost(found),
    }
    table = TextTable(
        ("table", "rows of the writer", "rows restored", "lost", "changed", "older rows left"),
        [(each.table, each.here, each.there, each.lost, each.changed, each.extra) for each in found.differences],
        "Every row of every table is the same.",
    )
    parts = [] if found.outcome == "damaged" else [table]
    facts = {
        "outcome": found.outcome,
        "replica": found.replica,
        "position": found.position,
        "rows": found.rows,
        "tables": found.tables,
        "bytes": found.bytes,
        "lostRows": found.lost_rows,
        "lostMs": found.lost_ms,
        "lostMessages": list(found.lost_messages),
        "differences": [
            {"table": each.table, "here": each.here, "there": each.there, "lost": each.lost, "changed": each.changed,
             "extra": each.extra}
            for each in found.differences
        ],
        "seconds": {
            "kill": seconds["kill"], "restore": found.restore_s, "check": found.check_s, "compare": found.compare_s,
            "back": seconds["back"], "total": seconds["total"],
        },
        "load": dict(load),
        "reason": found.reason,
    }  # fmt: skip
    return result(facts, _verdict(found), FactList(steps), *parts, code=0 if is_proof else DIFFERS)


def _verdict(found: "DrillResult") -> str:
    return {
        "equal": "The writer died, and the bucket had everything: the restore is its database.",
        "behind": "The writer died, and the restore is its database without the last moment.",
        "differs": "The restore is NOT an earlier state of the writer's database: infra/README.md, When they differ",
        "damaged": f"The bucket does NOT restore: {found.damage}. infra/README.md, The replica does not restore",
    }[found.outcome]


def _lost(found: "DrillResult") -> str:
    if found.outcome == "equal":
        return "nothing"
    if found.outcome == "damaged":
        return "everything since the last copy that restores"
    messages = f"; messages {', '.join(found.lost_messages)}" if found.lost_messages else "; no message"
    since = f" of the last {found.lost_ms} ms" if found.lost_ms else ", and no event"
    return f"{found.lost_rows} rows{since}{messages}"


def _time(work: Callable[[], str]) -> tuple[float, str]:
    begun_s = time.monotonic()
    told = work()
    return time.monotonic() - begun_s, told


@contextmanager
def _restore_folder(chosen: Path | None) -> Iterator[Path]:
    """A folder for the restored database, for this user only; what is put there is removed."""
    folder = Path(tempfile.mkdtemp(prefix="postroom-drill-", dir=chosen))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _say(text: str) -> None:
    print(escape(text), file=sys.stderr, flush=True)  # noqa: T201


def _silent(_: str) -> None:
    pass
