"""A missing file comes back whole, or nothing starts: never an empty database over a replica that holds something."""

import asyncio
import subprocess
from pathlib import Path

import apsw
import pytest

from emulator import replica
from emulator.failures import NotReady
from tests.emulator.test_s3 import ENVIRONMENT, s3_server

pytestmark = pytest.mark.e2e


def replicated(tmp_path: Path, port: int, *, times: int = 3) -> None:
    """A bucket with the history of a database that has *times* rows."""
    conn = apsw.Connection(str(tmp_path / "source.db"))
    conn.execute("PRAGMA journal_mode = WAL").fetchall()
    conn.execute("CREATE TABLE IF NOT EXISTS t (x)")
    for _ in range(times):
        conn.execute("INSERT INTO t VALUES (randomblob(100))")
        command = [replica.binary(), "replicate", "-once", str(tmp_path / "source.db"), replica.url(port)]
        subprocess.run(command, env=ENVIRONMENT, check=True)
    conn.close()


def restore(database: Path, port: int, limit_s: float = 30) -> replica.Restored | None:
    return asyncio.run(replica.restore_if_missing(database, replica.url(port), ENVIRONMENT, limit_s))


def left_by_the_lost_file(database: Path) -> list[Path]:
    """What a file that was moved away leaves, and needs when it is moved back."""
    kept = [database.with_name(database.name + "-wal"), database.with_name(f".{database.name}-litestream") / "position"]
    for path in kept:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"committed")
    return kept


def test_the_file_and_the_mark_of_its_new_epoch_appear(tmp_path: Path) -> None:
    database = tmp_path / "postroom.db"
    left = left_by_the_lost_file(database)
    with s3_server(tmp_path / "s3") as port:
        replicated(tmp_path, port)
        restored = restore(database, port)
        again = restore(database, port)
    assert restored is not None
    assert restored == again, "a start that ended before the epoch was begun is made good by the next"
    assert not any(path.exists() for path in left)
    replica.mark(database).unlink()
    with s3_server(tmp_path / "s3") as port:
        assert restore(database, port) is None


def test_a_file_without_a_byte_is_no_database(tmp_path: Path) -> None:
    database = tmp_path / "postroom.db"
    database.touch()
    with s3_server(tmp_path / "s3") as port:
        replicated(tmp_path, port)
        assert restore(database, port) is not None
    assert database.stat().st_size > 0


def test_an_empty_bucket_is_a_first_start(tmp_path: Path) -> None:
    with s3_server(tmp_path / "s3") as port:
        assert restore(tmp_path / "postroom.db", port) is None
    assert not (tmp_path / "postroom.db").exists()


def test_a_replica_without_its_beginning_starts_nothing_empty(tmp_path: Path) -> None:
    database = tmp_path / "postroom.db"
    left = left_by_the_lost_file(database)
    with s3_server(tmp_path / "s3") as port:
        replicated(tmp_path, port)
    for path in (tmp_path / "s3" / replica.BUCKET).glob("*0000000000000001-*"):
        path.unlink()
    assert list((tmp_path / "s3" / replica.BUCKET).iterdir()), "something is left of it"
    with s3_server(tmp_path / "s3") as port, pytest.raises(NotReady, match="can't be restored"):
        restore(database, port)
    assert not database.exists()
    assert all(path.exists() for path in left), "nothing was changed"


def test_a_bucket_that_does_not_answer_starts_nothing_empty(tmp_path: Path) -> None:
    database = tmp_path / "postroom.db"
    left = left_by_the_lost_file(database)
    with pytest.raises(NotReady, match="nothing was changed"):
        restore(database, 1, limit_s=1)
    assert not database.exists()
    assert all(path.exists() for path in left)
