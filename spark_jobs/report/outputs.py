"""Brings the outputs of all jobs to a mart, and reads their rows back by pyarrow."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from pyarrow import compute as pc
from pyarrow import dataset
from pyspark.sql import SparkSession

from spark_jobs import daily
from spark_jobs.command_line import OutInvalid, locked_folder, read_manifest
from spark_jobs.daily import DailyJob
from spark_jobs.mart.days import read_day
from spark_jobs.mart.frames import Mart
from spark_jobs.mart.manifest import MartManifest, TableFiles
from spark_jobs.mart.places import present
from spark_jobs.report.facts import Facts, Row

DAYS_READ = 60
"""The plots show half of it; averages look further back."""
WHOLE_TABLES = ("agent_pauses", "budgets")
LARGE_HOLE = 10
"""A message that somebody deleted by hand makes no week incomparable: a hole counts from a tenth of the rows on."""


def facts_of(
    place: str, folder: Path, jobs: Sequence[DailyJob], new_session: Callable[[], SparkSession], *, now_ms: int
) -> Facts:
    """Run each of *jobs* over the mart at *place* into a folder of its own below *folder*; then read what they wrote.

    What they wrote for another mart is deleted. Where all outputs are of the mart's present generation, no Spark
    session is made.

    Raises:
        InUse: another run writes there.
        MartInvalid: there is no mart.
        OutInvalid: a folder holds something else.
    """
    manifest, files, base = present(place)
    absent = {job.name: what for job in jobs if (what := what_lacks(job, manifest))}
    present_jobs = [job for job in jobs if job.name not in absent]
    if not all(_is_current(folder / job.name, job, place, manifest) for job in present_jobs):
        mart = Mart(new_session(), place, manifest, base)
        for job in present_jobs:
            drop_another(folder / job.name, job, place, manifest)
            daily.run(job, mart, folder / job.name, now_ms=now_ms)
    at = datetime.fromisoformat(manifest.timestamp)
    first = at.astimezone(UTC).date() - timedelta(days=DAYS_READ - 1)
    rows = {job.name: rows_of(folder / job.name, first, job) for job in present_jobs}
    restored = tuple(each["read_again_from_ms"] for each in manifest.new_histories)
    tables = {name: table for name in WHOLE_TABLES if (table := manifest.tables.get(name)) is not None}
    absent |= {name: f"table {name}" for name in WHOLE_TABLES if name not in tables}
    whole = {name: whole_rows(table, files, base) for name, table in tables.items()}
    return Facts(int(at.timestamp() * 1000), now_ms, rows, absent, restored, complete_from(manifest), whole)


def whole_rows(table: TableFiles, files: Any, base: str) -> list[Row]:
    """The rows of a table of the mart that has no days.

    Args:
        files: pyarrow's file system.
        base: the folder of the manifest in it.
    """
    return [row for part in table.days.values() for batch in read_day(files, base, part) for row in batch.to_pylist()]


def complete_from(manifest: MartManifest) -> date | None:
    """The first day of which, and of all later ones, the mart has more than nine tenths of the rows; None: of all.

    A hole before a row of a day may be of that day or of earlier ones. A row that only events tell of is of its day.
    """
    found = [
        date.fromisoformat(day) + timedelta(days=is_of_day)
        for table in manifest.tables.values()
        for counts, is_of_day in ((table.holes, 0), (table.unseen, 1))
        for day, missing in counts.items()
        if missing * LARGE_HOLE >= (table.days[day].rows if day in table.days else 0)
    ]
    return max(found, default=None)


def what_lacks(job: DailyJob, manifest: MartManifest) -> str:
    """The table or the columns that *job* needs and a mart of an earlier release does not have; else empty."""
    for name, columns in job.inputs.items():
        table = manifest.tables.get(name)
        if table is None:
            return f"table {name}"
        if missing := [column for column in columns if column not in table.columns]:
            return f"{', '.join(missing)} in table {name}"
    return ""


def _is_current(out: Path, job: DailyJob, place: str, manifest: MartManifest) -> bool:
    before = read_manifest(out)
    if before is None or not daily.is_of_this_release(job, before):
        return False
    return _position(before) == (place, manifest.generation, manifest.txid)


def drop_another(out: Path, job: DailyJob, place: str, manifest: MartManifest) -> None:
    """Delete what *job* wrote to *out* for another mart, or for one that was begun again since."""
    before = read_manifest(out)
    if before is None or before.get("job") != job.name:
        return
    mart, generation, txid = _position(before)
    is_of_this = mart == place and (generation, txid) == (manifest.generation, manifest.txid)
    if is_of_this or (mart == place and generation < manifest.generation):
        return
    with locked_folder(out):
        (out / "manifest.json").unlink()
        shutil.rmtree(out / "parquet", ignore_errors=True)


def _position(written: Mapping[str, Any]) -> tuple[str, int, str]:
    return written.get("mart", ""), written.get("mart_generation", 0), written.get("txid", "")


def rows_of(out: Path, first: date, job: DailyJob) -> list[Row]:
    """The rows that *job* has written to *out*, from the day *first* on, in the order of their days.

    Of the backlog also earlier rows that are still open.

    Raises:
        OutInvalid: a day lacks columns.
    """
    parquet = out / "parquet"
    if not any(parquet.glob("day=*")):
        return []
    stored = dataset.dataset(str(parquet), format="parquet", partitioning="hive")
    wanted = pc.field("day") >= first.isoformat()
    has_open = "ended" in job.schema.names
    for file in stored.get_fragments(None if has_open else wanted):
        missing = set(job.schema.names) - {"day"} - set(file.physical_schema.names)
        if missing:
            raise OutInvalid(
                f"{out} has days without {', '.join(sorted(missing))}, so another release of the job {job.name} wrote "
                "them: delete that folder, and the next report runs the job again"
            )
    if has_open:
        wanted = wanted | pc.field("ended").is_null()
    found = stored.to_table(filter=wanted).to_pylist()
    return sorted(({**row, "day": date.fromisoformat(row["day"])} for row in found), key=lambda row: row["day"])
