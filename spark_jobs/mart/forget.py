"""Takes one person out of a mart: their rows, what agents answered, what others quote, and every copy of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa

from spark_jobs.mart.days import DayWriter, read_day
from spark_jobs.mart.manifest import WHOLE, DayFiles, MartManifest, TableFiles
from spark_jobs.mart.places import MartPlace, new_run
from spark_jobs.mart.privacy import Veil
from spark_jobs.mart.remains import remains_of
from spark_jobs.mart.tables import BY_NAME
from spark_jobs.mart.traces import traces_of
from spark_jobs.mart.types import schema_of


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was done.

    Args:
        gone: how many rows went.
        remains: how many rows of each ``table.column`` still name the person, in all generations.
    """

    manifest: MartManifest
    gone: int
    remains: dict[str, int]


def forget(
    place: MartPlace, before: MartManifest, veil: Veil, channel: str, sender_id: str, *, now_ms: int
) -> Forgotten:
    """Take a person out. The next ``publish`` leaves them out too.

    Args:
        channel: an account of the person's platform, such as ``telegram``.
        sender_id: the person's id there, in the clear.

    Raises:
        InUse: another run has just written to the mart.
    """

    def read(table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        files = before.tables.get(table)
        for day in files.days.values() if files else ():
            yield from read_day(place.files, place.base, day, list(columns))

    veil = veil.with_forgotten([(channel, veil.person(sender_id) or "")])
    traces = traces_of(read, veil.takes_out)
    veil = replace(veil.with_forgotten(traces.ids), traces=traces)
    generation, run = before.generation + 1, new_run()
    tables = {}
    for name, table in before.tables.items():
        writer = DayWriter(place, name, schema_of(table.columns), generation, run)
        tables[name] = _without(place, veil, name, table, writer, generation)
    manifest = replace(
        before,
        generation=generation,
        finished_at=datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="seconds"),
        privacy=veil.privacy,
        tables=tables,
    )
    place.commit(manifest, before, forget=True)
    ids = {sender_id, veil.person(sender_id) or "", *(value for _, value in traces.ids)}
    return Forgotten(manifest, before.rows - manifest.rows, remains_of(place.files, place.root, ids, traces.names))


def _without(
    place: MartPlace, veil: Veil, name: str, table: TableFiles, writer: DayWriter, generation: int
) -> TableFiles:
    """The table without the person; days that hold nothing of theirs stay as they are."""
    days = dict(table.days)
    for day, files in table.days.items():
        if not any(kept is not batch for batch, kept in _kept(place, veil, name, files)):
            continue
        days[day] = DayFiles(0, generation, ())  # unless rows stay; jobs see that it has changed
        for _, rows in _kept(place, veil, name, files):
            writer.write(rows, "" if day == WHOLE else BY_NAME[name].by)
    days.update(writer.finish())
    return replace(table, days=dict(sorted(days.items())))


def _kept(place: MartPlace, veil: Veil, name: str, files: DayFiles) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """The rows of one day, and what stays of them: the same object where all do."""
    for batch in read_day(place.files, place.base, files):
        yield batch, veil.without_forgotten(BY_NAME[name], batch)
