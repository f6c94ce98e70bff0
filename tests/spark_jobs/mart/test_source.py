from collections import Counter
from itertools import islice

import pytest
from pyspark.sql.types import StructType

from spark_jobs import replicas
from spark_jobs.copies import BATCH_ROWS, describe
from spark_jobs.mart.manifest import Privacy
from spark_jobs.mart.places import opened
from spark_jobs.mart.privacy import key_of
from spark_jobs.mart.publish import publish
from spark_jobs.mart.source import PinnedTables, after, later_than, ranges_of, read_ahead
from spark_jobs.table_reader import LitestreamReader

NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC


class CountedTables(PinnedTables):
    """Counts the rows that leave the file."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.rows = Counter()

    def read(self, name, *conditions, **options):
        for batch in super().read(name, *conditions, **options):
            self.rows[name] += batch.num_rows
            yield batch


@pytest.fixture
def tables(primary, cache):
    """The tables of the primary's newest position."""

    def tables():
        primary.replicate()
        return CountedTables(*replicas.restore_pinned(primary.url, cache_dir=cache), str(cache))

    return tables


def ids_of(batches):
    return [row_id for batch in batches for row_id in batch.column("id").to_pylist()]


def test_rows_come_in_order_and_once_whatever_gaps_their_ids_have(primary, tables):
    ids = [1, 2, BATCH_ROWS, BATCH_ROWS + 1, 5 * BATCH_ROWS, 40 * BATCH_ROWS - 1, 40 * BATCH_ROWS]
    primary.execute("INSERT INTO events (id, type, created_at) VALUES (?, 'x', ?)", [(each, NOON) for each in ids])
    source = tables()
    assert ids_of(source.read("events")) == ids
    assert ids_of(source.read("events", after(BATCH_ROWS), columns=["id"])) == ids[3:]
    assert ids_of(source.read("events", after(ids[-1]))) == []
    assert ids_of(source.read("chat_messages")) == []


def test_a_gap_of_any_width_costs_no_range(primary, cache):
    ids = [-(2**62), -1, 5, 6, 2**63 - 1]
    insert = "INSERT INTO chat_messages (id, team_id, from_agent, message, created_at) VALUES (?, 't', 'a', '', 1)"
    primary.execute(insert, [(each,) for each in ids])
    primary.replicate()
    pin, path = replicas.restore_pinned(primary.url, cache_dir=cache)
    reader = LitestreamReader(pin, describe(path, "chat_messages"), StructType(), str(cache))
    found = [(each.low, each.high) for each in islice(ranges_of(reader, 6), 9)]
    assert found == [(-(2**62), -(2**62) + 5), (-1, 4), (5, 10), (2**63 - 1, 2**63 - 1)]
    reader.conditions = [after(4)]
    assert [(each.low, each.high) for each in islice(ranges_of(reader, 6), 9)] == found[2:]


class CountedReader(LitestreamReader):
    """Counts the batches that leave the file."""

    batches = 0

    def read(self, partition):
        for batch in super().read(partition):
            self.batches += 1
            yield batch


def test_rows_that_another_column_chooses_are_not_held_all_at_once(primary, cache):
    insert = "INSERT INTO chat_messages (team_id, from_agent, message, created_at) VALUES ('t', 'a', '', ?)"
    primary.execute(insert, [(NOON,)] * (3 * BATCH_ROWS))
    primary.replicate()
    pin, path = replicas.restore_pinned(primary.url, cache_dir=cache)
    table = describe(path, "chat_messages")
    reader = CountedReader(pin, table, StructType(table.fields[:1]), str(cache))
    reader.conditions = [later_than("created_at", NOON - 1)]
    found = read_ahead(reader)
    next(found)
    assert reader.batches == 1
    assert sum(batch.num_rows for batch in found) > 2 * BATCH_ROWS - 2


def test_the_highest_value_of_a_column(primary, tables):
    primary.receive(3)
    source = tables()
    assert source.highest("messages", "id") == 3
    assert source.highest("messages", "updated_at", later_than("updated_at", NOON + 1)) == NOON + 2
    assert source.highest("messages", "updated_at", later_than("updated_at", NOON + 2)) is None
    assert source.highest("events", "id") is None


def test_a_first_run_reads_each_row_once(primary, tables, tmp_path):
    primary.receive(5)
    source = tables()
    with opened(str(tmp_path / "mart")) as place:
        manifest = publish(place, source, place.begin(), key_of(Privacy()), now_ms=NOON)
    assert source.rows["messages"] == 5
    assert manifest.read_at_ms == NOON + 4
