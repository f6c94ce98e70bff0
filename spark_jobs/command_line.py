"""What the command lines of all jobs share: the arguments, the output folder, the manifest, the exit codes.

Exit codes: 0; 64 the command line is wrong; 65 the replica can't be restored; 66 no such replica or position;
69 the store does not answer; 75 another run writes to the same folder.
"""

import argparse
import fcntl
import json
import logging
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

from shared.core.errors import ConfigInvalid, InUse, PostroomError
from shared.core.time import clock
from spark_jobs.replicas import Pin, PositionMissing, ReplicaMissing, ReplicaUnreachable, restore_pinned
from spark_jobs.seconds import as_fields, counted_job
from spark_jobs.session import SMALL_BYTES, session

_log = logging.getLogger("postroom.jobs")
_ROOT = Path(__file__).resolve().parent.parent
_MANIFEST = "manifest.json"
_ROWS_SHOWN = 40
_SHOWN = "\n\u200c\u200d\u00a0\u2068\u2069"  # line breaks, the joiners of scripts, and the marks of the report


class OutInvalid(ConfigInvalid):
    """The output folder can't be written, or holds something else."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(os.EX_USAGE, f"{self.prog}: {message}\n{self.format_usage()}")


def arguments_of(job: str, description: str) -> argparse.ArgumentParser:
    """A parser with the arguments of every job; the job adds its own."""
    parser = parser_of(job, description)
    position_arguments(parser)
    parser.add_argument("--out", required=True, metavar="DIR", help=f"folder for the Parquet files and {_MANIFEST}")
    return parser


def parser_of(job: str, description: str) -> argparse.ArgumentParser:
    """A parser that ends with 64 where the command line is wrong."""
    return _Parser(prog=job, description=description)


def position_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a position of a replica."""
    parser.add_argument("--replica", required=True, metavar="URL", help="s3://bucket/prefix?endpoint=... or file:///d")
    position = parser.add_mutually_exclusive_group()
    position.add_argument("--txid", help="the position to read, as Litestream prints it; the latest otherwise")
    position.add_argument("--timestamp", help="the last position before this instant, like 2026-03-01T12:00:00Z")
    parser.add_argument("--epoch", help="only this history of the replica: its prefix, or meta.epoch of its database")
    parser.add_argument("--cache-dir", metavar="DIR", help="where restored replicas are kept (else the user's cache)")


def position_of(options: argparse.Namespace) -> dict[str, str | None]:
    """The arguments of :func:`position_arguments` as :func:`spark_jobs.replicas.restore_pinned` takes them."""
    return {name: getattr(options, name) for name in ("txid", "timestamp", "epoch", "cache_dir")}


def time_zone(name: str) -> str:
    """The type of an argument that names an IANA time zone."""
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise argparse.ArgumentTypeError(f"no such time zone: {name!r}; write one like Europe/Berlin") from None


def run_job(
    job: str, options: argparse.Namespace, check: Callable[[Path], None], run: Callable[[SparkSession, Pin], str]
) -> int:
    """Run a job from its parsed arguments, print what it says, and return the exit code.

    What can be refused is refused before Spark's ten seconds.

    Args:
        check: refuses the output folder, by raising, when it holds something else.
        run: does the job, and returns what to print.
    """
    out = Path(options.out)

    def do() -> str:
        with locked_folder(out):
            check(out)
        pin, path = restore_pinned(options.replica, **position_of(options))
        is_small = path.stat().st_size <= SMALL_BYTES
        return run(session(job, makes_archive=True, is_small=is_small), pin)

    return run_command(job, do)


def run_command(job: str, do: Callable[[], str]) -> int:
    """Do the work of a job, print what it says, and return the exit code."""
    logging.basicConfig(stream=sys.stderr, format="%(message)s")
    logging.getLogger("postroom").setLevel(logging.INFO)
    os.umask(0o077)
    try:
        with counted_job() as spent:
            said = do()
    except PostroomError as error:
        sys.stderr.write(f"{job}: {shown(str(error))}\n")
        return _exit_code(error)
    sys.stdout.write(shown(said))
    sys.stdout.flush()  # into a pipe too: Spark takes a second to stop
    _log.info("job.done job=%s %s", job, as_fields(spent))
    return 0


def shown(text: str) -> str:
    """The text for a terminal, with its line breaks: a name from outside may hold what moves the cursor."""
    return "".join(
        each if each.isprintable() or each in _SHOWN else each.encode("unicode_escape", "surrogatepass").decode()
        for each in text
    )


@contextmanager
def locked_folder(out: Path) -> Iterator[None]:
    """Make the output folder and hold its lock, which the kernel drops with its holder.

    Raises:
        InUse: another run writes to it.
        OutInvalid: it can't be written.
    """
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(out / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise OutInvalid(f"can't write to {out} ({error.strerror}): name another folder with --out") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(f"another run is writing to {out}: wait for it, or name another folder with --out") from None
        yield
    finally:
        os.close(descriptor)


def read_manifest(out: Path) -> dict[str, Any] | None:
    """The manifest of the last run that finished in this folder."""
    path = out / _MANIFEST
    manifest: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return manifest


def write_manifest(out: Path, job: str, pin: Pin, **facts: Any) -> dict[str, Any]:
    """Write the manifest, whole or not at all, and return it: which job, which position, and *facts*."""
    manifest = {
        "job": job,
        "replica": pin.url,
        "txid": pin.txid,
        "timestamp": pin.timestamp,
        "epoch": pin.epoch,
        **facts,
        "code_version": _version(),
        "finished_at": datetime.fromtimestamp(clock.now_ms() / 1000, UTC).isoformat(timespec="seconds"),
    }
    write_facts(out, manifest)
    return manifest


def write_facts(out: Path, facts: Mapping[str, Any]) -> None:
    """Write *facts* as the manifest of *out*, whole or not at all."""
    part = out / f"{_MANIFEST}.part"
    part.write_text(json.dumps(facts, indent=2) + "\n")
    part.replace(out / _MANIFEST)


def as_text(rows: Sequence[Row], schema: StructType, *, labels: int) -> str:
    """The latest rows as a table for people; the first *labels* columns are text, the others numbers."""
    header = schema.fieldNames()
    cells = [[str(value) for value in row] for row in rows[-_ROWS_SHOWN:]]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]

    def line(values: Sequence[str]) -> str:
        left = (value.ljust(width) for value, width in zip(values[:labels], widths[:labels], strict=True))
        right = (value.rjust(width) for value, width in zip(values[labels:], widths[labels:], strict=True))
        return "  ".join((*left, *right)).rstrip() + "\n"

    hidden = len(rows) - _ROWS_SHOWN
    earlier = f"... {hidden} earlier rows in the Parquet files\n" if hidden > 0 else ""
    return line(header) + line(["-" * width for width in widths]) + earlier + "".join(map(line, cells))


def _exit_code(error: PostroomError) -> int:
    if isinstance(error, ConfigInvalid):
        return os.EX_USAGE
    if isinstance(error, (ReplicaMissing, PositionMissing)):
        return os.EX_NOINPUT
    if isinstance(error, ReplicaUnreachable):
        return os.EX_UNAVAILABLE
    return os.EX_TEMPFAIL if isinstance(error, InUse) else os.EX_DATAERR


def _version() -> str:
    try:
        return metadata.version("postroom")
    except metadata.PackageNotFoundError:  # run from its sources
        project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
        return f"{project['project']['version']}+source"
