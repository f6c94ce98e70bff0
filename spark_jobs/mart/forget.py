"""Takes one person out of a mart: their rows, what agents answered them, and every earlier copy of both."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from spark_jobs.mart.days import DayWriter, read_day
from spark_jobs.mart.manifest import WHOLE, DayFiles, MartManifest, TableFiles
from spark_jobs.mart.places import MartPlace, new_run
from spark_jobs.mart.privacy import ANSWERS, Veil, as_masked, without_reasons
from spark_jobs.mart.tables import BY_NAME
from spark_jobs.mart.types import schema_of

_COLUMNS = ("message_id", "channel", "sender_id", "platform_id", "private_to")


def forget(
    place: MartPlace, before: MartManifest, veil: Veil, channel: str, sender_id: str, *, now_ms: int
) -> tuple[MartManifest, int]:
    """Take a person out; return the new manifest and how many rows went. The next ``publish`` leaves them out too.

    Args:
        channel: an account of the person's platform, such as ``telegram``.
        sender_id: the person's id there, in the clear.

    Raises:
        InUse: another run has just written to the mart.
    """
    person = _Person(place, before, channel.partition(".")[0], veil.person(sender_id) or "")
    messages = person.messages()
    generation, run = before.generation + 1, new_run()
    tables = {}
    for name, table in before.tables.items():
        writer = DayWriter(place, name, schema_of(table.columns), generation, run)
        tables[name] = person.take_out(name, table, messages, writer, generation)
    gone = sum(before.tables[name].rows - table.rows for name, table in tables.items())
    manifest = replace(
        before,
        generation=generation,
        finished_at=datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="seconds"),
        privacy=veil.with_forgotten(channel, sender_id),
        tables=tables,
    )
    place.commit(manifest, before, forget=True)
    return manifest, gone


class _Person:
    def __init__(self, place: MartPlace, before: MartManifest, platform: str, sender_id: str) -> None:
        self._place, self._before = place, before
        self._platform, self._sender_id = platform, sender_id

    def messages(self) -> frozenset[str]:
        """The ids of the messages that the person wrote or got."""
        found: set[str] = set()
        for name in ("messages", "responses"):
            table = self._before.tables.get(name)
            for day in table.days.values() if table else ():
                columns = ["message_id", "channel", "sender_id", "platform_id"]
                for batch in read_day(self._place.files, self._place.base, day, columns):
                    found.update(row["message_id"] for row in batch.to_pylist() if self._is_theirs(row))
        return frozenset(found - {None, ""})

    def take_out(
        self, name: str, table: TableFiles, messages: frozenset[str], writer: DayWriter, generation: int
    ) -> TableFiles:
        """The table without the person's rows; days without any stay as they are."""
        days = dict(table.days)
        for day, files in table.days.items():
            if not self._is_changed(name, files, messages):
                continue
            days[day] = DayFiles(0, generation, ())  # unless rows stay; jobs see that it has changed
            for batch, dropped in self._marked(name, files, messages):
                rows = without_reasons(batch, messages) if name == "events" else batch
                writer.write(as_masked(rows, dropped), "" if day == WHOLE else BY_NAME[name].by)
        days.update(writer.finish())
        return replace(table, days=dict(sorted(days.items())))

    def _is_changed(self, name: str, files: DayFiles, messages: frozenset[str]) -> bool:
        return any(
            any(dropped) or (name == "events" and without_reasons(batch, messages) is not batch)
            for batch, dropped in self._marked(name, files, messages)
        )

    def _marked(
        self, name: str, files: DayFiles, messages: frozenset[str]
    ) -> Iterator[tuple[pa.RecordBatch, list[bool]]]:
        """The rows of one day, and which of them go."""
        for batch in read_day(self._place.files, self._place.base, files):
            yield batch, [self._goes(name, row, messages) for row in batch.select(_known(batch)).to_pylist()]

    def _goes(self, name: str, row: dict[str, Any], messages: frozenset[str]) -> bool:
        return self._is_theirs(row) or (name in ANSWERS and row.get("message_id") in messages)

    def _is_theirs(self, row: dict[str, Any]) -> bool:
        if row.get("private_to") == self._sender_id:
            return True
        is_there = (row.get("channel") or "").partition(".")[0] == self._platform
        return is_there and self._sender_id in (row.get("sender_id"), row.get("platform_id"))


def _known(batch: pa.RecordBatch) -> list[str]:
    return [name for name in _COLUMNS if name in batch.schema.names]
