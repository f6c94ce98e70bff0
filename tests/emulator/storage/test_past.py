"""The past is opened from a replica that the real Litestream wrote, and the replica is only read."""

import asyncio
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from emulator.base.errors import DoesNotExist, EmulatorError, InvalidInput, NotADatabase, NotReady, WrongFolder
from emulator.base.past_question import PastQuestion
from emulator.base.state import StateFolder
from emulator.storage import past as storage
from shared.db.engine import meta, past, schema
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.past import Past
from shared.db.replica.litestream_program import program
from shared.db.replica.positions import litestream
from shared.roster.new_database import prepare_database
from tests.support import put


@dataclass
class Origin:
    """A living database, and the folder that it is replicated to."""

    database: Path
    bucket: Path

    @property
    def url(self) -> str:
        return f"file://{self.bucket}"

    def write(self, text: str) -> None:
        conn = open_connection(self.database)
        put(conn, text)
        conn.close()

    def replicate(self) -> str:
        """Bring everything to the bucket; the position that it has then."""
        done = subprocess.run(
            [program(), "replicate", "-once", str(self.database), self.url],
            env=litestream.environment_of(self.url), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = litestream.plan(self.url)
        assert found is not None
        return found.txid

    def objects(self) -> dict[str, tuple[int, bytes]]:
        """Every file of the bucket, with the instant of its last change."""
        files = (path for path in self.bucket.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.fixture
def origin(db: Path, tmp_path: Path) -> Origin:
    return Origin(db, tmp_path / "bucket")


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    """A state folder as the emulator prepares it."""
    folder = StateFolder(tmp_path / "past")
    folder.prepare()
    return folder


def opened(state: StateFolder, origin: Origin | str, **position: Any) -> Past:
    url = origin if isinstance(origin, str) else origin.url
    return asyncio.run(storage.open_past(state, PastQuestion(url, **position)))


def texts(database: Path) -> list[str]:
    conn = open_connection(database, readonly=True)
    try:
        return [text for (text,) in rows(conn, "SELECT message FROM messages ORDER BY id")]
    finally:
        conn.close()


def test_a_position_becomes_a_marked_database_and_the_replica_is_only_read(origin: Origin, state: StateFolder) -> None:
    origin.write("before")
    first = origin.replicate()
    origin.write("after")
    origin.replicate()
    bucket, living = origin.objects(), origin.database.read_bytes()

    found = opened(state, origin, txid=first)

    assert texts(state.database) == ["before"]
    assert past.of_file(state.database) == found
    assert (found.replica, found.txid, found.asked) == (origin.url, first, f"txid {first}")
    assert found.newest_session == 1
    assert origin.objects() == bucket
    assert origin.database.read_bytes() == living
    assert past.of_file(origin.database) is None
    assert not list(state.path.glob("*.opening*"))


def test_the_newest_position_is_opened_where_none_is_asked_for(origin: Origin, state: StateFolder) -> None:
    origin.write("one")
    newest = origin.replicate()
    assert opened(state, origin).txid == newest
    assert opened(state, origin).txid == newest  # the same past again


def test_the_same_past_is_opened_again_without_its_replica(origin: Origin, state: StateFolder) -> None:
    origin.write("one")
    first = origin.replicate()
    made = opened(state, origin, txid=first)
    conn = open_connection(state.database)
    put(conn, "a replay")
    conn.close()
    origin.bucket.rename(origin.bucket.with_name("away"))
    assert opened(state, origin, txid=first) == made
    assert texts(state.database) == ["one", "a replay"]


def test_a_folder_with_another_past_is_refused(origin: Origin, state: StateFolder) -> None:
    origin.write("one")
    first = origin.replicate()
    origin.write("two")
    second = origin.replicate()
    opened(state, origin, txid=first)
    with pytest.raises(WrongFolder, match=rf"holds another past: file://.*{first}"):
        opened(state, origin, txid=second)
    assert texts(state.database) == ["one"]


def test_a_folder_with_a_living_database_or_a_bucket_is_refused(origin: Origin, state: StateFolder) -> None:
    origin.write("one")
    first = origin.replicate()
    prepare_database(state.database)
    with pytest.raises(WrongFolder, match="the past needs a folder of its own"):
        opened(state, origin, txid=first)
    assert past.of_file(state.database) is None
    for file in state.path.glob("postroom.db*"):
        file.unlink()
    (state.s3 / "object").write_text("x")
    with pytest.raises(WrongFolder, match="the past needs a folder of its own"):
        opened(state, origin, txid=first)


@pytest.mark.parametrize(
    ("position", "error", "part"),
    [
        ({"timestamp": "2020-01-01T00:00:00Z"}, DoesNotExist, "its oldest position is from 20"),
        ({"txid": "ffff"}, DoesNotExist, "the nearest are 0000000000000001"),
        ({"txid": "no"}, InvalidInput, "is no txid"),
        ({"epoch": "epoch_x"}, DoesNotExist, "no epoch 'epoch_x'"),
    ],
)
def test_a_position_that_is_not_there_is_told_with_those_that_are(
    origin: Origin, state: StateFolder, position: dict[str, str], error: type[EmulatorError], part: str
) -> None:
    origin.write("one")
    origin.replicate()
    with pytest.raises(error) as refused:
        opened(state, origin, **position)
    assert part in str(refused.value)
    assert not state.database.exists()


def test_an_empty_place_and_a_wrong_url_are_told(tmp_path: Path, state: StateFolder) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DoesNotExist, match="there is no replica at"):
        opened(state, f"file://{tmp_path}/nothing")
    with pytest.raises(DoesNotExist, match="there is no replica at"):
        opened(state, f"file://{tmp_path}/nothing", timestamp="2026-01-01T00:00:00Z")
    with pytest.raises(InvalidInput, match="credentials do not belong"):
        opened(state, "s3://key:secret@bucket/p")
    with pytest.raises(NotReady, match="check the address"):
        opened(state, "s3://bucket/p?endpoint=http://127.0.0.1:1")
    assert not state.database.exists()


def older_database(path: Path, migrations: int) -> None:
    conn = apsw.Connection(str(path))
    conn.execute("PRAGMA journal_mode = WAL")
    for version in sorted(schema.migrations())[:migrations]:
        conn.execute(schema.migrations()[version])
        meta.put(conn, "schema_version", str(version))
    conn.close()


def test_an_earlier_schema_is_migrated_in_the_copy_alone(tmp_path: Path, state: StateFolder) -> None:
    origin = Origin(tmp_path / "old.db", tmp_path / "bucket")
    older_database(origin.database, 20)
    first = origin.replicate()
    bucket = origin.objects()
    found = opened(state, origin, txid=first)
    assert found.schema == sorted(schema.migrations())[19]
    conn = open_connection(state.database, readonly=True)
    assert meta.get(conn, "schema_version") == str(max(schema.migrations()))
    conn.close()
    assert origin.objects() == bucket


def test_a_later_schema_is_refused(origin: Origin, state: StateFolder) -> None:
    conn = open_connection(origin.database)
    with transaction(conn):
        meta.put(conn, "schema_version", "9999")
    conn.close()
    first = origin.replicate()
    with pytest.raises(NotADatabase, match=r"has schema 9999 at 20.*open it with the release that wrote it"):
        opened(state, origin, txid=first)
    assert not state.database.exists()


def test_what_is_no_database_of_ours_is_refused(tmp_path: Path, state: StateFolder) -> None:
    origin = Origin(tmp_path / "other.db", tmp_path / "bucket")
    conn = apsw.Connection(str(origin.database))
    conn.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (a)").fetchall()
    conn.close()
    first = origin.replicate()
    with pytest.raises(NotADatabase, match="is the database of another program"):
        opened(state, origin, txid=first)
    assert not state.database.exists()


def test_what_a_killed_start_left_is_no_database(origin: Origin, state: StateFolder) -> None:
    """The copy has its name only when it is marked: whatever a kill leaves, nothing works on it."""
    origin.write("one")
    first = origin.replicate()
    (state.path / "postroom.db.opening").write_bytes(origin.database.read_bytes())
    assert storage.opened_in(state) is None
    assert not state.database.exists()
    opened(state, origin, txid=first)
    assert past.of_file(state.database) is not None


def test_an_instant_means_the_last_position_before_it(origin: Origin, state: StateFolder) -> None:
    origin.write("one")
    first = origin.replicate()
    found = opened(state, origin, timestamp=datetime.now(UTC).isoformat())
    assert (found.txid, texts(state.database)) == (first, ["one"])
