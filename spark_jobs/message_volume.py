"""Daily message volume per channel, from one position of a replica.

Reads: ``messages`` (channel, status, created_at). Writes ``OUT/parquet/day=YYYY-MM-DD/*.parquet`` and, last,
``OUT/manifest.json``, with the position and the days that were written. A second run for the same position writes the
same files and leaves other days alone.

``sweep`` prunes finished messages after about a day. A day that now has fewer messages than an earlier run counted is
therefore kept as it was, and the manifest says so. Run the job at least daily, soon after midnight.

Exit codes: 0; 64 the command line is wrong; 65 the replica can't be restored; 66 no such replica or position;
69 the store doesn't answer; 75 another run writes to the same folder.
"""

import argparse
import fcntl
import json
import logging
import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

ROOT = Path(__file__).resolve().parent.parent
if not __package__:  # run by its path, as by spark-submit: then this folder is on the path, and not its parent
    sys.path[0] = str(ROOT)

import pyarrow as pa  # noqa: E402
from pyarrow import dataset  # noqa: E402
from pyspark.sql import DataFrame, Row, SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType  # noqa: E402

from shared.core import clock  # noqa: E402
from shared.core.errors import ConfigInvalid, InUse, PostroomError  # noqa: E402
from spark_jobs.datasource import open_replica  # noqa: E402
from spark_jobs.replicas import Pin, PositionMissing, ReplicaMissing, ReplicaUnreachable, pinned  # noqa: E402
from spark_jobs.session import session  # noqa: E402

COLUMNS = ("channel", "status", "created_at")
SCHEMA = StructType(
    [
        StructField("day", DateType()),
        StructField("channel", StringType()),
        StructField("received", LongType()),
        StructField("completed", LongType()),
        StructField("dead", LongType()),
    ]
)
_SHOWN = 40


class OutInvalid(ConfigInvalid):
    """The output folder can't be written, or holds something else."""


def message_volume(messages: DataFrame, tz: str = "UTC") -> DataFrame:
    """One row per (day, channel): day date, channel string, received long, completed long, dead long.

    Args:
        messages: channel, status, created_at (ms UTC).
        tz: the IANA zone of the days.
    """
    day = F.to_date(F.from_utc_timestamp(F.timestamp_millis("created_at"), tz))
    return messages.groupBy(day.alias("day"), "channel").agg(
        F.count("*").alias("received"),
        F.count_if(F.col("status") == "completed").alias("completed"),
        F.count_if(F.col("status") == "dead").alias("dead"),
    )


def run(
    spark: SparkSession,
    pin: Pin,
    out: Path,
    *,
    tz: str = "UTC",
    cache_dir: str | None = None,
) -> tuple[list[Row], dict[str, Any]]:
    """Do the whole job; the rows, by day and channel, and the manifest.

    Raises:
        InUse: another run writes to *out*.
        OutInvalid: *out* can't be written, or holds the days of another zone.
    """
    with _alone(out):
        _check_zone(out, tz)
        replica = open_replica(spark, pin, cache_dir=cache_dir)
        volume = message_volume(replica.table("messages", columns=COLUMNS), tz)
        rows = sorted(volume.collect(), key=lambda row: (row.day, row.channel))
        parquet = out / "parquet"
        before = _received(parquet)
        now: dict[date, int] = {}
        for row in rows:
            now[row.day] = now.get(row.day, 0) + row.received
        kept = sorted(day for day, received in now.items() if received < before.get(day, 0))
        written = sorted(now.keys() - set(kept))
        fresh = [row for row in rows if row.day not in kept]
        if fresh:
            table = spark.createDataFrame(fresh, SCHEMA).coalesce(1)
            days = table.write.partitionBy("day").option("partitionOverwriteMode", "dynamic")
            days.parquet(str(parquet), mode="overwrite")
        manifest = {
            "job": "message_volume",
            "replica": pin.url,
            "txid": pin.txid,
            "timestamp": pin.timestamp,
            "epoch": pin.epoch,
            "tz": tz,
            "messages": sum(now.values()),
            "rows": len(fresh),
            "days_written": [day.isoformat() for day in written],
            "days_kept": [day.isoformat() for day in kept],
            "code_version": _version(),
            "finished_at": datetime.fromtimestamp(clock.now_ms() / 1000, UTC).isoformat(timespec="seconds"),
        }
        part = out / "manifest.json.part"
        part.write_text(json.dumps(manifest, indent=2) + "\n")
        part.replace(out / "manifest.json")
    return rows, manifest


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, run, print; the module's docstring has the exit codes."""
    asked = _arguments(argv)
    logging.basicConfig(stream=sys.stderr, format="%(message)s")
    logging.getLogger("postroom").setLevel(logging.INFO)
    os.umask(0o077)
    try:
        with _alone(Path(asked.out)):
            _check_zone(Path(asked.out), asked.tz)
        # Refuse early: Spark takes ten seconds to start.
        pin, _ = pinned(asked.replica, txid=asked.txid, timestamp=asked.timestamp, cache_dir=asked.cache_dir)
        spark = session("message_volume")
        rows, manifest = run(spark, pin, Path(asked.out), tz=asked.tz, cache_dir=asked.cache_dir)
    except PostroomError as error:
        sys.stderr.write(f"message_volume: {error}\n")
        return _exit_code(error)
    sys.stdout.write(as_text(rows))
    kept = manifest["days_kept"]
    unchanged = f"; kept, because an earlier run counted more: {', '.join(kept)}" if kept else ""
    sys.stdout.write(
        f"{manifest['messages']} messages at txid {manifest['txid']} ({manifest['timestamp']}); "
        f"days written to {asked.out}/parquet: {len(manifest['days_written'])}{unchanged}\n"
    )
    return 0


def as_text(rows: Sequence[Row]) -> str:
    """The latest rows as a table for people."""
    header = SCHEMA.fieldNames()
    cells = [[str(value) for value in row] for row in rows[-_SHOWN:]]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]

    def line(values: Sequence[str]) -> str:
        left = (value.ljust(width) for value, width in zip(values[:2], widths[:2], strict=True))
        right = (value.rjust(width) for value, width in zip(values[2:], widths[2:], strict=True))
        return "  ".join((*left, *right)).rstrip() + "\n"

    earlier = f"... {len(rows) - _SHOWN} earlier rows in the Parquet files\n" if len(rows) > _SHOWN else ""
    rule = line(["-" * width for width in widths])
    return line(header) + rule + earlier + "".join(map(line, cells)) + ("" if rows else "no messages yet\n")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(prog="message_volume", description="Daily message volume per channel, from a Litestream replica.")
    parser.add_argument("--replica", required=True, metavar="URL", help="s3://bucket/prefix?endpoint=... or file:///d")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the Parquet files and manifest.json")
    position = parser.add_mutually_exclusive_group()
    position.add_argument("--txid", help="the position to read, as Litestream prints it; the latest otherwise")
    position.add_argument("--timestamp", help="the last position before this instant, like 2026-03-01T12:00:00Z")
    parser.add_argument("--tz", type=_zone, default="UTC", help="the zone of the days (default UTC)")
    parser.add_argument("--cache-dir", metavar="DIR", help="folder of restored replicas (default: the user's cache)")
    return parser.parse_args(argv)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(os.EX_USAGE, f"{self.prog}: {message}\n{self.format_usage()}")


def _exit_code(error: PostroomError) -> int:
    if isinstance(error, ConfigInvalid):
        return os.EX_USAGE
    if isinstance(error, (ReplicaMissing, PositionMissing)):
        return os.EX_NOINPUT
    if isinstance(error, ReplicaUnreachable):
        return os.EX_UNAVAILABLE
    return os.EX_TEMPFAIL if isinstance(error, InUse) else os.EX_DATAERR


def _zone(name: str) -> str:
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise argparse.ArgumentTypeError(f"no such time zone: {name!r}; one is written like Europe/Berlin") from None


def _check_zone(out: Path, tz: str) -> None:
    manifest = out / "manifest.json"
    if manifest.exists() and (stored := json.loads(manifest.read_text())["tz"]) != tz:
        raise OutInvalid(f"{out} holds days of {stored}: use --tz {stored}, or name another folder with --out")


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Make the folder and lock it; the kernel frees the lock of a dead process."""
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


def _received(parquet: Path) -> dict[date, int]:
    """The counts of earlier runs, by day."""
    if not parquet.is_dir():
        return {}
    by_day = dataset.partitioning(pa.schema([("day", pa.string())]), flavor="hive")
    stored = dataset.dataset(str(parquet), format="parquet", partitioning=by_day)
    received: dict[date, int] = {}
    for batch in stored.to_batches(columns=["day", "received"]):
        for row in batch.to_pylist():
            day = date.fromisoformat(row["day"])
            received[day] = received.get(day, 0) + row["received"]
    return received


def _version() -> str:
    try:
        return metadata.version("postroom")
    except metadata.PackageNotFoundError:  # run from its sources
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        return f"{project['project']['version']}+source"


if __name__ == "__main__":
    raise SystemExit(main())
