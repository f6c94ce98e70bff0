"""Brings a mart to one pinned position of a replica.

A run reads only what is new: rows with higher ids than the last run saw, and those messages and responses that the
events since then name or that are still open. A row that the replica has pruned stays in the mart as it was last seen;
a message or a response that ended in between ends as its events say.
A run for the position that the mart has changes nothing. A run that ends early leaves the mart as it was.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pyarrow as pa
from pyarrow import compute as pc

from spark_jobs.mart.days import DayWriter, by_day, read_day
from spark_jobs.mart.ends import ENDINGS, Ends, as_ended, days_of_ends, unseen_ends
from spark_jobs.mart.histories import history_of, parts_at
from spark_jobs.mart.manifest import WHOLE, DayFiles, MartManifest, TableFiles
from spark_jobs.mart.places import MartPlace, new_run
from spark_jobs.mart.privacy import Veil, as_masked
from spark_jobs.mart.source import (
    PinnedTables,
    after,
    later_than,
    ms_of,
    not_later_than,
    one_of,
    up_to,
)
from spark_jobs.mart.tables import ALL, MartTable
from spark_jobs.mart.traces import traces_of
from spark_jobs.mart.types import TYPES
from spark_jobs.mart.unseen import BEGINNINGS, unseen_rows
from spark_jobs.pushed_filters import Condition

_MOST_FILES = 16  # of one day: beyond this many, they are merged
_LATE_MS = 3_600_000  # clocks of two processes differ by less
_CONTEXT_ENDED = """ "trigger" = 0 AND "status" = 'completed' AND "updated_at" >= ?"""  # no event names such a row


@dataclass(frozen=True, slots=True)
class MartRun:
    """What one run works with.

    Args:
        before: the present generation, or None.
        again_from: rows of later instants (ms UTC) are read again, because the history is a new one; None: it goes on.
        ends: of rows that the database has no more, by table.
    """

    place: MartPlace
    source: PinnedTables
    before: MartManifest | None
    veil: Veil
    generation: int
    name: str
    again_from: int | None
    ends: Mapping[str, Ends] = field(default_factory=dict)


def publish(
    place: MartPlace, source: PinnedTables, before: MartManifest | None, veil: Veil, *, now_ms: int
) -> MartManifest:
    """Bring the mart to the position of *source*; return its manifest, which is *before* if it was there already.

    Raises:
        MartInvalid: the position is earlier than the mart's, or of another history.
        InUse: another run has just written to the mart.
    """
    pin = source.pin
    if before and (before.txid, before.timestamp, before.epoch) == (pin.txid, pin.timestamp, pin.epoch):
        return before
    again_from = parts_at(place, before, source) if before else None
    generation = before.generation + 1 if before else 1
    veil = _with_traces(source, veil)
    run = MartRun(place, source, before, veil, generation, new_run(), again_from)
    if before and again_from is None:
        run = replace(run, ends={name: unseen_ends(source, before, name) for name in ENDINGS})
    tables = {table.name: _publish_table(run, table) for table in ALL if source.has(table.name)}
    kept = {name: files for name, files in before.tables.items() if name not in tables} if before else {}
    crossed: tuple[dict[str, object], ...] = before.new_histories if before else ()
    if again_from is not None:
        crossed = (*crossed, {"generation": generation, "epoch": pin.epoch, "read_again_from_ms": again_from})
    manifest = MartManifest(
        replica=pin.url,
        txid=pin.txid,
        timestamp=pin.timestamp,
        epoch=pin.epoch,
        history=history_of(source),
        generation=generation,
        read_at_ms=_read_at(source, before),
        finished_at=datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="seconds"),
        privacy=veil.privacy,
        tables={**kept, **tables},
        new_histories=crossed,
    )
    place.commit(manifest, before)
    return manifest


def _publish_table(run: MartRun, table: MartTable) -> TableFiles:
    """Write what is new of one table; return all its files."""
    before = run.before.tables.get(table.name) if run.before else None
    left_out = run.veil.columns(table)
    schema = _with_old_columns(run.source.schema(table.name, left_out), before)
    writer = DayWriter(run.place, table.name, schema, run.generation, run.name)
    columns = {field.name: str(field.type) for field in schema}
    if not table.by:
        for batch in run.source.read(table.name, left_out=left_out):
            writer.write(run.veil.applied(table, batch), "")
        return TableFiles(columns, 0, writer.finish() or {WHOLE: _none(run.generation)})
    last_id = before.last_id if before else 0
    changed = _changed(run, table, last_id)
    days = dict(before.days) if before else {}
    rewritten = _to_rewrite(run, table, days, changed)
    for day in rewritten:
        _rewrite(run, table, writer, days.pop(day, None), changed.pop(day, []))
    highest = last_id if run.again_from is None else run.source.highest(table.name, "id") or 0
    holes = Counter(before.holes if before else {})
    for batch in run.source.read(table.name, _fresh(run, table, last_id), left_out=left_out):
        if run.again_from is None and batch.num_rows:
            for day, number in _holes(batch, table.by, highest):
                holes[day] += number
        highest = max(highest, pc.max(batch.column("id")).as_py())
        writer.write(run.veil.applied(table, batch), table.by)
    for day, files in writer.finish().items():
        days[day] = _joined(days.get(day), files)
    for day in rewritten:
        days.setdefault(day, _none(run.generation))  # empty now: jobs see that it has changed
    found = dict(sorted(days.items()))
    return TableFiles(columns, highest, found, dict(sorted(holes.items())), _unseen(run, table.name, before))


def _unseen(run: MartRun, table: str, before: TableFiles | None) -> dict[str, int]:
    found = Counter(before.unseen if before else {})
    if run.again_from is None and table in BEGINNINGS:
        found += unseen_rows(run.place, run.source, run.before, table)
    return dict(sorted(found.items()))


def _fresh(run: MartRun, table: MartTable, last_id: int) -> Condition:
    return after(last_id) if run.again_from is None else later_than(table.by, run.again_from)


def _changed(run: MartRun, table: MartTable, last_id: int) -> dict[str, list[pa.RecordBatch]]:
    """The rows that the mart has in an earlier state, by day."""
    left_out = run.veil.columns(table)
    seen: set[int] = set()
    found: dict[str, list[pa.RecordBatch]] = {}
    for conditions in _changes(run, table, last_id):
        for batch in run.source.read(table.name, *conditions, left_out=left_out):
            ids = batch.column("id").to_pylist()
            fresh = as_masked(batch, [row_id in seen for row_id in ids])
            seen.update(ids)
            for day, rows in by_day(fresh, table.by):
                found.setdefault(day, []).append(rows)
    return found


def _changes(run: MartRun, table: MartTable, last_id: int) -> Iterator[list[Condition]]:
    """Conditions that together find every row that may have changed since the last run."""
    if run.before is None or not (table.open_states or table.has_updates):
        return
    if run.again_from is not None:
        yield [not_later_than(table.by, run.again_from)]
        return
    if table.has_updates:
        yield [up_to(last_id), Condition("updated_at", '"updated_at" >= ?', (_watermark(run.before) - _LATE_MS,))]
        return
    yield [up_to(last_id), one_of("status", table.open_states)]
    if table.name == "messages":
        yield [up_to(last_id), Condition("updated_at", _CONTEXT_ENDED, (_watermark(run.before) - _LATE_MS,))]
    messages, responses = _named_by_events(run.source, run.before)
    yield [up_to(last_id), one_of("message_id", messages) if table.name == "messages" else one_of("id", responses)]


def _named_by_events(source: PinnedTables, before: MartManifest) -> tuple[set[str], set[int]]:
    """The messages and responses that events since the last run name."""
    messages: set[str] = set()
    responses: set[int] = set()
    since = after(before.tables["events"].last_id)
    for batch in source.read("events", since, columns=["message_id", "response_id", "data"]):
        rows = batch.to_pydict()
        messages.update(filter(None, rows["message_id"]))
        responses.update(value for value in rows["response_id"] if value is not None)
        for data in rows["data"]:
            if '"batch"' in data:
                messages.update(json.loads(data).get("batch", ()))
    return messages, responses


def _to_rewrite(
    run: MartRun, table: MartTable, days: dict[str, DayFiles], changed: dict[str, list[pa.RecordBatch]]
) -> list[str]:
    crowded = {day for day, files in days.items() if len(files.files) >= _MOST_FILES}
    cut: set[str] = set()
    if run.again_from is not None:
        first = datetime.fromtimestamp(max(run.again_from, 0) / 1000, UTC).date().isoformat()
        cut = {day for day in days if day >= first}
    ended: set[str] = set()
    if run.before and table.name in run.ends:
        ended = days_of_ends(run.place, run.before, table.name, run.ends[table.name], table.open_states)
    return sorted(crowded | cut | ended | set(changed))


def _rewrite(
    run: MartRun, table: MartTable, writer: DayWriter, files: DayFiles | None, changed: list[pa.RecordBatch]
) -> None:
    """Write one day anew: the rows that stay, and those that have changed in their present state."""
    replaced = {row_id for batch in changed for row_id in batch.column("id").to_pylist()}
    for batch in read_day(run.place.files, run.place.base, files) if files else ():
        ids, instants = batch.column("id").to_pylist(), batch.column(table.by).to_pylist()
        again = run.again_from
        dropped = [
            row_id in replaced or (again is not None and ms_of(at) > again)
            for row_id, at in zip(ids, instants, strict=True)
        ]
        kept = as_masked(batch, dropped)
        ends = run.ends.get(table.name)
        writer.write(as_ended(table.name, kept, ends, table.open_states) if ends else kept, table.by)
    for batch in changed:
        writer.write(run.veil.applied(table, batch), table.by)


def _with_traces(source: PinnedTables, veil: Veil) -> Veil:
    """The veil that knows what people who were taken out have left in the replica, also under other ids of theirs."""
    if not veil.privacy.forgotten:
        return veil

    def read(table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if source.has(table):
            known = source.schema(table).names
            yield from source.read(table, columns=[name for name in columns if name in known])

    traces = traces_of(read, veil.takes_out)
    ids = [(channel, veil.person(value) or "") for channel, value in traces.ids]
    return replace(veil.with_forgotten(ids), traces=traces)


def _read_at(source: PinnedTables, before: MartManifest | None) -> int:
    """The latest change of a row of ``usage`` or of ``messages``, and never later than the position's own instant.

    The next run reads from there: a row of a clock that ran ahead must not hide the changes that come after it.
    """
    latest = _watermark(before) if before else 0
    for name in ("usage", "messages"):
        if source.has(name):
            since = Condition("updated_at", '"updated_at" >= ?', (latest,))
            latest = max(latest, source.highest(name, "updated_at", since) or 0)
    return min(latest, _instant_ms(source.pin.timestamp))


def _watermark(before: MartManifest) -> int:
    """Where an earlier release took the instant of a row that ran ahead, the position's own holds."""
    return min(before.read_at_ms, _instant_ms(before.timestamp))


def _instant_ms(timestamp: str) -> int:
    return ms_of(datetime.fromisoformat(timestamp))


def _holes(rows: pa.RecordBatch, by: str, last_id: int) -> Iterator[tuple[str, int]]:
    """How many ids are missing before a row of *rows*, which come by id after *last_id*; each with the row's day."""
    before = pa.concat_arrays([pa.array([last_id], pa.int64()), rows.column("id")[:-1]])
    missing = pc.subtract(pc.subtract(rows.column("id"), before), 1)
    mask = pc.greater(missing, 0)
    days = rows.column(by).cast(pa.date32()).filter(mask)
    for day, number in zip(days.to_pylist(), missing.filter(mask).to_pylist(), strict=True):
        yield str(day), number


def _with_old_columns(schema: pa.Schema, before: TableFiles | None) -> pa.Schema:
    """The columns of the table now, then those that only rows of earlier releases have."""
    old = before.columns if before else {}
    more = [pa.field(name, TYPES[kind]) for name, kind in old.items() if name not in schema.names]
    return pa.schema([*schema, *more])


def _joined(old: DayFiles | None, new: DayFiles) -> DayFiles:
    if old is None:
        return new
    return DayFiles(old.rows + new.rows, new.generation, (*old.files, *new.files))


def _none(generation: int) -> DayFiles:
    return DayFiles(0, generation, ())
