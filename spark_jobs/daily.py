"""Runs a job over a mart, day by day: only the days whose input has changed since its last run are computed again.

A job is a pure function of DataFrames with a schema, and the days (UTC) that its output has. It writes
``OUT/parquet/day=YYYY-MM-DD/*.parquet`` and, last, ``OUT/manifest.json``, which says what the next run may leave out.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from shared.core.time import clock
from spark_jobs.command_line import (
    OutInvalid,
    as_text,
    locked_folder,
    parser_of,
    read_manifest,
    run_command,
    write_facts,
)
from spark_jobs.mart.frames import Mart, open_mart
from spark_jobs.mart.manifest import MartInvalid, MartManifest
from spark_jobs.mart.places import present
from spark_jobs.session import SMALL_ROWS, session


@dataclass(frozen=True, slots=True)
class DailyJob:
    """One job.

    Args:
        schema: of its output. The first column is ``day``.
        labels: how many of its first columns are no numbers.
        inputs: columns, by table; the tables in the order of *transform*'s arguments.
        transform: the output for all days that its inputs tell of. The rows of a day are the same whether it is given
            the days that this day needs, or more: its limits of time are in it, and not in the choice of days.
        days_before: how many days before a day its output depends on.
        days_after: how many days after a day its output depends on.
        read_after: of how many more days after a day a table is read, by table. Such rows alone make no day be computed
            again: what they tell of changes with them.
        has_present: the output of the position's day also depends on the instant of the position: *transform* takes it
            as ``at_ms``, in ms UTC.
        version: a later one means other columns or another meaning, so all days are computed again.
    """

    name: str
    description: str
    schema: StructType
    labels: int
    inputs: Mapping[str, Sequence[str]]
    transform: Callable[..., DataFrame]
    days_before: int = 0
    days_after: int = 0
    read_after: Mapping[str, int] = field(default_factory=dict)
    has_present: bool = False
    version: int = 1

    def affected(self, day: str) -> set[str]:
        """The days of the output that a change of *day* changes."""
        return {_shifted(day, step) for step in range(-self.days_after, self.days_before + 1)}

    def needed(self, days: Iterable[str], table: str) -> set[str]:
        """The days of *table* that the output of *days* is made of."""
        last = self.days_after + self.read_after.get(table, 0)
        return {_shifted(day, step) for day in days for step in range(-self.days_before, last + 1)}


def run(job: DailyJob, mart: Mart, out: Path, *, now_ms: int) -> list[str]:
    """Bring the output of *job* to the generation of *mart*; return the days that were computed again.

    Raises:
        InUse: another run writes to *out*.
        OutInvalid: *out* holds something else, or is ahead of the mart.
    """
    with locked_folder(out):
        before = _checked(job, mart, out)
        days = days_to_compute(job, mart.manifest, _done(job, before), _written(out))
        if days:
            _compute(job, mart, out, days)
        write_facts(
            out,
            {
                "job": job.name,
                "version": job.version,
                "mart": mart.place,
                "mart_generation": mart.manifest.generation,
                "txid": mart.manifest.txid,
                "timestamp": mart.manifest.timestamp,
                "days_written": days,
                "finished_at": datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="seconds"),
            },
        )
    return days


@dataclass(frozen=True, slots=True)
class Done:
    """What an earlier run has brought its output to: the generation of the mart, and the instant of its position."""

    generation: int = 0
    timestamp: str = ""


def days_to_compute(job: DailyJob, manifest: MartManifest, done: Done, written: Sequence[str]) -> list[str]:
    """The days whose input has changed since *done*, or is gone; those that depend on these days included."""
    changed: set[str] = set()
    known: set[str] = set()
    for name in job.inputs:
        table = manifest.tables.get(name)
        for day, files in table.days.items() if table else ():
            known.add(day)
            if files.generation > done.generation:
                changed |= job.affected(day)
    if job.has_present and known:
        present_days = {day_of(each) for each in (done.timestamp, manifest.timestamp) if each}
        known |= present_days  # also where no input is of that day
        if manifest.generation > done.generation:
            changed |= present_days
    for day in set(written) - known:  # a new history, or a person who was taken out, can leave a day empty
        changed |= job.affected(day)
    return sorted(changed & (known | set(written)))


def day_of(timestamp: str) -> str:
    """The day in UTC of the instant of a position."""
    return datetime.fromisoformat(timestamp).astimezone(UTC).date().isoformat()


def interval(days: int) -> Column:
    """For the limits of a transform: what it counts of one day must not depend on the days it is given."""
    return F.expr(f"INTERVAL {days} DAYS")


def is_of_this_release(job: DailyJob, written: Mapping[str, Any]) -> bool:
    """Whether the manifest *written* is of an output that has the columns and the meaning of today."""
    return written.get("version") == job.version


def main_of(job: DailyJob, argv: Sequence[str] | None) -> int:
    """The command line of *job*; returns the exit code."""
    parser = parser_of(job.name, job.description)
    parser.add_argument("--mart", required=True, metavar="PLACE", help="what `publish` wrote: a folder, or s3://...")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the Parquet files and manifest.json")
    options = parser.parse_args(argv)

    def do() -> str:
        out = Path(options.out)
        manifest, _, _ = present(options.mart)  # a wrong place is told before Spark's ten seconds
        spark = session(job.name, makes_archive=True, is_small=manifest.rows <= SMALL_ROWS)
        days = run(job, open_mart(spark, options.mart), out, now_ms=clock.now_ms())
        if not _written(out):
            return "the mart has nothing for this job yet\n"
        stored = spark.read.schema(job.schema).parquet(str(out / "parquet"))  # days of earlier releases lack columns
        rows = stored.select(job.schema.fieldNames())
        latest = rows.where(F.col("day") >= F.lit(max(_written(out)))).orderBy(*job.schema.fieldNames()).collect()
        return as_text(latest, job.schema, labels=job.labels) + f"days computed: {len(days)}; all in {out}/parquet\n"

    return run_command(job.name, do)


def _done(job: DailyJob, before: Mapping[str, Any] | None) -> Done:
    if before is None or not is_of_this_release(job, before):
        return Done()
    return Done(before["mart_generation"], before["timestamp"])


def _compute(job: DailyJob, mart: Mart, out: Path, days: list[str]) -> None:
    frames = [mart.table(name, columns, job.needed(days, name)) for name, columns in job.inputs.items()]
    at = datetime.fromisoformat(mart.manifest.timestamp)
    more = {"at_ms": int(at.timestamp() * 1000)} if job.has_present else {}
    wanted = [date.fromisoformat(day) for day in days]
    result = job.transform(*frames, **more).select(job.schema.fieldNames()).where(F.col("day").isin(wanted))
    fresh = out / "parquet.next"
    shutil.rmtree(fresh, ignore_errors=True)
    result.coalesce(1).write.partitionBy("day").parquet(str(fresh))
    for day in days:
        target = out / "parquet" / f"day={day}"
        shutil.rmtree(target, ignore_errors=True)
        if (fresh / target.name).exists():
            target.parent.mkdir(mode=0o700, exist_ok=True)
            (fresh / target.name).rename(target)
    shutil.rmtree(fresh, ignore_errors=True)


def _checked(job: DailyJob, mart: Mart, out: Path) -> dict[str, Any] | None:
    before = read_manifest(out)
    if before is None:
        return None
    if (before.get("job"), before.get("mart")) != (job.name, mart.place):
        source = before.get("mart") or before.get("replica")
        raise OutInvalid(f"{out} holds {before.get('job')} of {source}: name another folder with --out")
    if before["mart_generation"] > mart.manifest.generation:
        raise MartInvalid(f"{out} is of a later generation than the mart, which was begun again: name another folder")
    return before


def _written(out: Path) -> list[str]:
    return sorted(path.name.removeprefix("day=") for path in (out / "parquet").glob("day=*"))


def _shifted(day: str, days: int) -> str:
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat()
