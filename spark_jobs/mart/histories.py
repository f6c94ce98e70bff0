"""When a replica has begun a new history: from which instant on the mart and the replica may differ.

A restore may lose the last commits, and their ids are then given to other rows. Both sides hold the newest events, and
an event never changes, so the last event that both have in common shows where the histories part.
"""

from collections.abc import Iterator
from typing import Any

from pyarrow import compute as pc

from spark_jobs.mart.days import read_day
from spark_jobs.mart.manifest import MartInvalid, MartManifest
from spark_jobs.mart.places import MartPlace
from spark_jobs.mart.source import PinnedTables, ms_of, one_of, up_to

MARGIN_MS = 60_000
"""Rows of several tables are not committed in the order of their instants."""

_COLUMNS = ["id", "type", "message_id", "created_at"]


def history_of(source: PinnedTables) -> str:
    """Tells the histories of one replica apart: one ends where a restore leaves ids out, at the start after it."""
    epoch = source.values("meta", "value", one_of("key", ["numbered_epoch"]))
    epoch = epoch or source.values("meta", "value", one_of("key", ["epoch"]))
    return f"{source.pin.epoch}/{epoch[0] if epoch else ''}"


def parts_at(place: MartPlace, before: MartManifest, source: PinnedTables) -> int | None:
    """The instant (ms UTC) from which rows must be read again, or None where the replica goes on as the mart ends.

    Raises:
        MartInvalid: an earlier position than the mart's, or a history that has nothing in common with it.
    """
    events = before.tables.get("events")
    is_same = history_of(source) == before.history
    if is_same and source.pin.txid < before.txid and source.pin.timestamp <= before.timestamp:
        raise MartInvalid(
            f"the mart is at txid {before.txid} ({before.timestamp}), later than {source.pin.txid}: it only goes "
            "forward; publish an earlier position into another place"
        )
    if events is None or not events.rows:
        return None if is_same else -1
    if is_same and source.pin.txid >= before.txid and _has_last_event(place, before, source):
        return None
    shared = _last_in_common(_mart_events(place, before), _replica_events(source, events.last_id))
    if shared is None:
        raise MartInvalid(
            "the replica has no event in common with the mart, so it is another history: publish it into another place"
        )
    return shared - MARGIN_MS


def _has_last_event(place: MartPlace, before: MartManifest, source: PinnedTables) -> bool:
    events = before.tables["events"]
    newest = max(day for day, each in events.days.items() if each.rows)
    last: dict[str, Any] = {"id": 0}
    for batch in read_day(place.files, place.base, events.days[newest], _COLUMNS):
        if batch.num_rows and (highest := pc.max(batch.column("id"))).as_py() > last["id"]:
            (last,) = batch.filter(pc.equal(batch.column("id"), highest)).to_pylist()
    found = list(_rows(source, last["id"]))
    return not found or found[0] == last


def _rows(source: PinnedTables, event_id: int) -> Iterator[dict[str, Any]]:
    for batch in source.read("events", one_of("id", [event_id]), columns=_COLUMNS):
        yield from batch.to_pylist()


def _replica_events(source: PinnedTables, last_id: int) -> Iterator[dict[str, Any]]:
    for batch in source.read("events", up_to(last_id), columns=_COLUMNS):
        yield from batch.to_pylist()


def _mart_events(place: MartPlace, before: MartManifest) -> dict[int, dict[str, Any]]:
    found = {}
    for day in before.tables["events"].days.values():
        for batch in read_day(place.files, place.base, day, _COLUMNS):
            found.update({row["id"]: row for row in batch.to_pylist()})
    return found


def _last_in_common(mart: dict[int, dict[str, Any]], replica: Iterator[dict[str, Any]]) -> int | None:
    latest = None
    for row in replica:
        if row["id"] not in mart:
            continue
        if mart[row["id"]] != row:
            break
        latest = max(latest or 0, ms_of(row["created_at"]))
    return latest
