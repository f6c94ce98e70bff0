"""Spark's protocol without Spark: plan, record the offset, read, commit; and what a restart of it repeats."""

import json
import os
import shutil
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_jobs import replicas
from spark_jobs.streaming.errors import EpochChanged, HoleInStream, OffsetInvalid, StreamBroken
from spark_jobs.streaming.reader import LitestreamStreamReader
from tests.spark_jobs.conftest import NOON

SCHEMA = StructType([StructField("id", LongType(), False), StructField("type", StringType(), False)])


@dataclass
class Stream:
    """A query and its checkpoint: ``offsets`` as Spark stores them, and the rows that each batch gave."""

    url: str
    cache: Any
    options: dict[str, str] = field(default_factory=dict)
    offsets: list[str] = field(default_factory=list)
    batches: list[list[tuple[Any, ...]]] = field(default_factory=list)
    table: str = "events"
    schema: StructType = field(default_factory=lambda: SCHEMA)

    def __post_init__(self):
        self.restart()

    def restart(self, **options):
        self.options |= options
        self.reader = LitestreamStreamReader(
            self.schema, self.url, self.table, {**self.options, "cache_dir": str(self.cache)}
        )

    def plan(self):
        """Record the end of the next batch; False if there is nothing to read."""
        if not self.offsets:
            self.offsets.append(json.dumps(self.reader.initialOffset()))
        end = json.dumps(self.reader.latestOffset(json.loads(self.offsets[-1]), self.reader.getDefaultReadLimit()))
        if end == self.offsets[-1]:
            return False
        self.offsets.append(end)
        return True

    def read(self):
        """The rows of the last batch that was planned."""
        start, end = map(json.loads, self.offsets[-2:])
        parts = self.reader.partitions(start, end)
        return [tuple(row.values()) for part in parts for batch in self.reader.read(part) for row in batch.to_pylist()]

    def drain(self):
        while self.plan():
            self.batches.append(self.read())
        return [row for batch in self.batches for row in batch]


@pytest.fixture
def events(primary):
    primary.begin_prefix("first", "epoch_one")
    return primary


@pytest.fixture
def stream(events, cache):
    return lambda **options: Stream(events.url, cache, options)


def wrote(first, last, name="e"):
    return [(id_, f"{name}{id_}") for id_ in range(first, last + 1)]


def write(primary, first, last, name="e"):
    primary.happen(*(type_ for _, type_ in wrote(first, last, name)))
    primary.replicate()


def delete(primary, until):
    primary.execute(f"DELETE FROM events WHERE id <= {until}")
    primary.replicate()


def test_it_follows_what_replicates_and_an_offset_is_epoch_position_row(events, stream):
    write(events, 1, 3)
    query = stream()
    assert query.drain() == wrote(1, 3)
    write(events, 4, 5)
    assert query.drain() == wrote(1, 5)
    pin = replicas.resolve(events.url)
    assert json.loads(query.offsets[-1]) == {
        "epoch": "epoch_one",
        "position": pin.position,
        "row": 5,
        "table": "events",
    }


@pytest.mark.parametrize(
    ("table", "add", "columns"),
    [
        ("chat_messages", "INSERT INTO chat_messages (team_id, from_agent, message, created_at) VALUES ('t','a',?,1)",
         "message"),
        ("agent_messages", "INSERT INTO agent_messages (agent_id, role, channel, sender, message_id, content,"
         " created_at) VALUES ('a', 'user', 'web', 'ann', 'm_1', ?, 1)", "content"),
    ],
)  # fmt: skip
def test_the_other_tables_that_only_grow_are_followed(events, cache, table, add, columns):
    schema = StructType([StructField(columns, StringType(), False)])
    events.replicate()
    query = Stream(events.url, cache, table=table, schema=schema)
    assert query.drain() == []
    events.execute(add, [("grüße 🙂",), ("zwei",)])
    events.replicate()
    assert query.drain() == [("grüße 🙂",), ("zwei",)]


def test_a_quiet_table_makes_no_batch_though_the_replica_goes_on(events, stream):
    write(events, 1, 1)
    query = stream()
    query.drain()
    events.receive(1)
    events.replicate()
    assert not query.plan()


def test_the_copies_of_earlier_triggers_are_deleted_when_nobody_reads_them(events, stream, cache):
    query = stream()
    for number in range(1, 6):
        write(events, number, number)
        query.drain()
        for path in cache.glob("*.db"):
            os.utime(path, (1, 1))  # long ago
    assert query.drain() == wrote(1, 5)
    assert len(list(cache.glob("*.db"))) == 1
    events.receive(1)
    events.replicate()
    assert not query.plan()
    assert len(list(cache.glob("*.db"))) == 2, "the newest, and the one where the stream stands"
    write(events, 6, 6)
    other = stream(start="oldest")  # reads the newest position too
    query.drain()
    assert other.drain() == wrote(1, 6)


def test_a_checkpoint_of_another_table_stops_the_stream(events, stream):
    write(events, 1, 1)
    query = stream()
    query.drain()
    query.table = "chat_messages"
    query.restart()
    with pytest.raises(OffsetInvalid, match="name another folder as checkpointLocation"):
        query.plan()


def test_a_batch_has_at_most_max_rows(events, stream):
    write(events, 1, 7)
    query = stream(max_rows="3")
    assert query.drain() == wrote(1, 7)
    assert [len(batch) for batch in query.batches] == [3, 3, 1]


def test_reading_all_that_is_available_goes_past_max_rows(events, stream):
    write(events, 1, 7)
    query = stream(max_rows="3")
    end = query.reader.latestOffset(query.reader.initialOffset(), ReadAllAvailable())
    assert end["row"] == 7


def test_a_stream_may_begin_after_the_newest_row(events, stream):
    write(events, 1, 3)
    query = stream(start="newest")
    assert query.drain() == []
    write(events, 4, 4)
    assert query.drain() == wrote(4, 4)


def test_available_now_ends_at_what_there_was_at_its_start(events, stream):
    write(events, 1, 5)
    query = stream(max_rows="2")
    query.reader.prepareForTriggerAvailableNow()
    query.plan()
    write(events, 6, 9)
    query.batches.append(query.read())
    assert query.drain() == wrote(1, 5)
    query.restart()
    assert query.drain() == wrote(1, 9), "the next run has the rest"


def test_a_batch_that_is_repeated_after_a_restart_has_the_same_rows(events, stream, cache):
    write(events, 1, 4)
    query = stream(max_rows="3")
    query.plan()
    before = query.read()
    write(events, 5, 6)
    shutil.rmtree(cache)
    query.restart()
    assert query.read() == before == wrote(1, 3)
    query.batches.append(before)
    assert query.drain() == wrote(1, 6)


def test_a_repeated_batch_whose_position_is_merged_away_reads_a_later_one(events, stream, cache):
    write(events, 1, 4)
    query = stream()
    query.plan()
    write(events, 5, 6)
    pinned = json.loads(query.offsets[-1])
    shutil.rmtree(cache)
    query.offsets[-1] = json.dumps(pinned | {"position": "00000000000000ff@2026-03-01T12:00:00Z@first"})
    assert query.read() == wrote(1, 4)


def test_rows_that_retention_took_before_the_first_start_are_no_hole(events, stream):
    write(events, 1, 6)
    delete(events, 4)
    assert stream().drain() == wrote(5, 6)


def test_a_hole_stops_the_stream_and_is_crossed_where_the_option_says_so(events, stream, caplog):
    write(events, 1, 2)
    query = stream()
    query.drain()
    write(events, 3, 6)
    delete(events, 4)
    query.plan()
    with pytest.raises(HoleInStream, match=r"events: 2 of the rows from 3 to 6 are deleted.*on_hole=cross"):
        query.read()
    query.restart(on_hole="cross")
    assert query.read() == wrote(5, 6)
    assert "stream.hole_crossed table=events after=2 until=6 missing=2" in caplog.text


def test_a_wide_hole_is_crossed_in_one_batch(events, stream):
    write(events, 1, 2)
    query = stream(max_rows="2", on_hole="cross")
    query.drain()
    write(events, 3, 60)
    delete(events, 58)
    assert query.drain() == wrote(1, 2) + wrote(59, 60)
    assert len(query.batches) == 2


def test_a_new_epoch_stops_the_stream(events, stream):
    write(events, 1, 2)
    query = stream()
    query.drain()
    events.begin_prefix("second", "epoch_two")
    write(events, 3, 3)
    with pytest.raises(EpochChanged, match=r"epoch is epoch_two.* epoch_one up to row 2\..*on_new_epoch=cross"):
        query.plan()


def test_a_new_prefix_of_the_same_epoch_is_no_new_epoch(events, stream):
    write(events, 1, 2)
    query = stream()
    query.drain()
    events.begin_prefix("second", "epoch_one")
    write(events, 3, 3)
    assert query.drain() == wrote(1, 3)


def test_an_epoch_that_goes_on_is_crossed_without_loss_or_repetition(events, stream):
    write(events, 1, 5)
    query = stream(on_new_epoch="cross", max_rows="2")
    query.plan()
    query.batches.append(query.read())
    events.begin_prefix("second", "epoch_two")
    write(events, 6, 7)
    assert query.drain() == wrote(1, 7)


def test_an_epoch_that_went_back_is_crossed_at_the_last_row_that_both_have(events, stream, cache, tmp_path):
    write(events, 1, 3)
    kept = events.path.read_bytes(), events.path.with_name("primary.db-wal").read_bytes()
    write(events, 4, 6)
    query = stream(on_new_epoch="cross")
    query.drain()
    events.path.with_name("primary.db-shm").unlink(missing_ok=True)
    events.path.write_bytes(kept[0])
    events.path.with_name("primary.db-wal").write_bytes(kept[1])
    events.begin_prefix("second", "epoch_two")
    write(events, 4, 5, "new")
    shutil.rmtree(cache)
    assert query.drain() == wrote(1, 6) + wrote(4, 5, "new")
    assert not query.plan()


def begin_epoch(primary, name, epoch, after, first):
    """As a restore and the start after it: ids begin again at *first*, and *after* is the last known one."""
    primary.begin_prefix(name, epoch)
    data = json.dumps({"after": after})
    sql = "INSERT INTO events (id, type, data, created_at) VALUES (?, 'epoch_began', ?, ?)"
    primary.execute(sql, [(first, data, NOON)])


def test_ids_that_a_restore_left_out_are_no_hole(events, stream):
    write(events, 1, 3)
    query = stream(on_new_epoch="cross")
    query.drain()
    write(events, 4, 5)
    begin_epoch(events, "second", "epoch_two", 5, 1000)
    write(events, 1001, 1002)
    found = [*wrote(1, 5), (1000, "epoch_began"), *wrote(1001, 1002)]
    assert query.drain() == found
    assert stream(start="oldest").drain() == found
    events.execute("DELETE FROM events WHERE id <= 5")
    events.replicate()
    assert stream(start="oldest").drain() == found[5:]


def test_a_hole_beside_ids_that_a_restore_left_out_is_counted_by_its_rows(events, stream):
    write(events, 1, 2)
    query = stream(on_new_epoch="cross")
    query.drain()
    write(events, 3, 6)
    begin_epoch(events, "second", "epoch_two", 6, 1000)
    delete(events, 4)
    query.plan()
    with pytest.raises(HoleInStream, match=r"events: 2 of the rows from 3 to 1000 are deleted"):
        query.read()


def test_a_replica_that_lost_what_was_read_stops_the_stream(events, stream):
    write(events, 1, 3)
    query = stream(on_new_epoch="cross", on_hole="cross")
    query.drain()
    events.execute("DELETE FROM events WHERE id > 1")
    events.replicate()
    with pytest.raises(StreamBroken, match="read up to row 3, and the replica ends at row 1"):
        query.plan()


def test_a_table_that_is_emptied_by_hand_is_a_hole_and_no_silence(events, stream):
    write(events, 1, 3)
    query = stream()
    query.drain()
    events.execute("DELETE FROM events")
    events.replicate()
    with pytest.raises(StreamBroken, match="the replica ends at row 0"):
        query.plan()
