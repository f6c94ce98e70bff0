"""The data source over a replica of a running system: our own functions wrote it, through the real Litestream."""

import shutil
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from shared.core import ids
from shared.db.engine.connection import open_connection, rows
from shared.db.replica import lease_record
from shared.db.replica.lease_record import ReplicaPrefix
from shared.db.replica.object_store import open_store
from spark_jobs import replicas
from spark_jobs.copies import describe
from spark_jobs.datasource import open_replica
from spark_jobs.table_reader import LitestreamReader
from tests.e2e.conftest import System, until
from tests.emulator.storage.test_s3_server import ENVIRONMENT, s3_server

pytestmark = [pytest.mark.spark, pytest.mark.e2e, pytest.mark.long]

ANA = "5000000001"
BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
HIDDEN = ("sqlite_", "_litestream_")
WORK = {
    "ingest": "SELECT 1 FROM messages WHERE channel = 'telegram' AND status = 'completed'",
    "api": "SELECT 1 FROM messages WHERE channel = 'api' AND status = 'completed'",
    "dispatch": "SELECT 1 FROM agent_messages WHERE role = 'assistant'",
    "deliver": "SELECT 1 FROM events WHERE type = 'response_acked'",
    "sweep": "SELECT 1 FROM meta WHERE key = 'heartbeat_at'",
    "recurrence": "SELECT 1 FROM messages JOIN schedule_runs USING (series_id) WHERE status = 'pending'",
}


def say(system, text):
    assert system.post(f"/control/telegram/users/{ANA}/message", {"text": text}, "platforms")[0] == 201


def url_at(port):
    return f"s3://postroom-replica/db?endpoint=http://127.0.0.1:{port}"


@pytest.fixture(scope="module", autouse=True)
def credentials():
    """The emulator's S3 takes any."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """A running system in which every function has done its work."""
    running = System(tmp_path_factory.mktemp("own") / "state")
    running.start()
    try:
        say(running, "grüße 🙂 \u202e\n`x`")
        running.api_message("a question")
        running.call("POST", "/api/message", {"message": "again", "recurrence": "0 4 * * *", "processAfter": 1})
        for function, sql in WORK.items():
            until(f"the work of {function}", lambda sql=sql: running.query(sql))
        yield running
    finally:
        running.stop()


@dataclass
class Ended:
    """What a system left when it stopped in good order: its file, and its bucket."""

    database: Path
    bucket: Path


@pytest.fixture(scope="module")
def ended(system):
    assert system.stop() == 0
    return Ended(system.state / "postroom.db", system.state / "s3")


@pytest.fixture
def url(ended, tmp_path):
    """The URL of a replica in a copy of that bucket."""
    with s3_server(Path(shutil.copytree(ended.bucket, tmp_path / "s3"))) as port:
        yield url_at(port)


def read_all(pin, path, cache):
    """Every table as the data source reads it: the names of its columns, and its rows, instants in milliseconds."""
    found = {}
    for name in table_names(path):
        described = describe(path, name)
        reader = LitestreamReader(pin, described, StructType(list(described.fields)), str(cache))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        values = [tuple(map(as_stored, row.values())) for batch in batches for row in batch.to_pylist()]
        found[name] = ([field.name for field in described.fields], sorted(values, key=repr))
    return found


def as_stored(value):
    return (value - BEGIN) // timedelta(milliseconds=1) if isinstance(value, datetime) else value


def table_names(path):
    conn = open_connection(path, readonly=True)
    try:
        names = [name for (name,) in rows(conn, "SELECT name FROM sqlite_schema WHERE type = 'table'")]
    finally:
        conn.close()
    return [name for name in names if not name.startswith(HIDDEN)]


def stored_in(path):
    """The same of a file, by SQLite."""
    conn = open_connection(path, readonly=True)
    try:
        return {
            name: (
                [column for (column,) in rows(conn, "SELECT name FROM pragma_table_info(?)", (name,))],
                sorted(map(tuple, rows(conn, f'SELECT * FROM "{name}"')), key=repr),
            )
            for name in table_names(path)
        }
    finally:
        conn.close()


def newest_file(url):
    """The newest file of the replica, and the store that has it."""
    store = open_store(url, ENVIRONMENT)
    prefix = lease_record.newest_prefix(store, lease_record.read(store))
    return store, store.names(prefix.key(store.newest_ltx_files), limit=1000)[-1]


def change(url, how):
    store, name = newest_file(url)
    found = store.get(name)
    store.put(name, how(found.body), replacing=found.tag)


def test_what_is_read_while_the_functions_write_is_one_state_and_stays(system, tmp_path):
    url = system.get("/_emulator/status")[1]["replica"]["url"]
    stopped = threading.Event()

    def write():
        number = 0
        while not stopped.is_set():
            number += 1
            say(system, f"message {number}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = []
        for _ in range(3):
            pin, path = replicas.restore_pinned(url, cache_dir=tmp_path / "cache")
            found = read_all(pin, path, tmp_path / "cache")
            assert found == stored_in(path)
            conn = open_connection(path, readonly=True)
            assert rows(conn, "PRAGMA foreign_key_check") == []
            conn.close()
            columns, events = found["events"]
            newest = max(row[columns.index("id")] for row in events)
            assert events == sorted(system.query("SELECT * FROM events WHERE id <= ?", newest), key=repr)
            seen.append((pin, found, newest))
            until("newer events", lambda newest=newest: system.query("SELECT 1 FROM events WHERE id > ?", newest + 20))
    finally:
        stopped.set()
        writer.join()

    assert seen[0][2] < seen[1][2] < seen[2][2]
    pin, found, _ = seen[0]
    again = replicas.ensure_local(pin, tmp_path / "another cache")
    assert read_all(pin, again, tmp_path / "another cache") == found


def test_every_table_and_column_is_that_of_the_file_at_the_same_position(ended, url, tmp_path):
    pin, path = replicas.restore_pinned(url, cache_dir=tmp_path / "cache")

    found, stored = read_all(pin, path, tmp_path / "cache"), stored_in(ended.database)

    assert found.keys() == stored.keys()
    for name in stored:
        assert found[name] == stored[name], name
    filled = {name for name, (_, values) in found.items() if values}
    assert {"messages", "responses", "events", "agent_messages", "sessions", "schedule_runs", "meta"} < filled


@pytest.mark.parametrize("name", ["messages", "events", "schedule_runs"])
def test_spark_sees_the_same_rows(spark, ended, url, tmp_path, name):
    table = open_replica(spark, url, cache_dir=tmp_path / "cache").table(name)

    columns, stored = stored_in(ended.database)[name]
    assert table.columns == columns
    read = [tuple(map(as_stored, row.values())) for row in table.toArrow().to_pylist()]
    assert sorted(read, key=repr) == stored


@pytest.mark.parametrize(
    "how",
    [
        lambda body: body[: len(body) // 2],
        lambda body: body[:60],
        lambda body: b"",
        lambda body: body[:-20] + bytes([body[-20] ^ 1]) + body[-19:],
        lambda body: body[: len(body) // 2] + bytes([body[len(body) // 2] ^ 1]) + body[len(body) // 2 + 1 :],
    ],
    ids=["half", "its beginning", "nothing", "a bit of its end", "a bit of its middle"],
)
def test_a_damaged_or_half_written_file_is_told_and_older_positions_are_read(ended, url, tmp_path, how):
    before = replicas.resolve(url)
    change(url, how)

    with pytest.raises(replicas.RestoreFailed, match="read another position with txid or timestamp"):
        replicas.restore_pinned(url, cache_dir=tmp_path / "cache")

    older = f"{int(before.txid, 16) - 1:016x}"
    pin, path = replicas.restore_pinned(url, txid=older, cache_dir=tmp_path / "cache")
    found = read_all(pin, path, tmp_path / "cache")
    columns, events = found["events"]
    kept = {row[columns.index("id")] for row in events}
    assert [row for row in stored_in(ended.database)["events"][1] if row[columns.index("id")] in kept] == events


def test_a_prefix_that_has_no_full_copy_yet_is_not_read(ended, url, tmp_path):
    """A takeover that is half done: the record names the new prefix, and Litestream has sent nothing."""
    before = replicas.resolve(url)
    store = open_store(url, ENVIRONMENT)
    found = store.get(lease_record.NAME)
    record = lease_record.LeaseRecord.load(found.body)
    new = ReplicaPrefix(ids.new("epoch"), record.current.epoch, record.owner, record.renewed_at)
    store.put(lease_record.NAME, record.with_new_prefix(new, keeping=record.current).dump(), replacing=found.tag)

    pin, path = replicas.restore_pinned(url, cache_dir=tmp_path / "cache")

    assert pin.txid == before.txid
    assert read_all(pin, path, tmp_path / "cache") == stored_in(ended.database)
