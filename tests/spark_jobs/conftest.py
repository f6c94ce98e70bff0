"""A database that the real migrations made, its replica that the real Litestream wrote, and one Spark session."""

import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path
from typing import Any

import apsw
import pytest
from moto.server import ThreadedMotoServer

from shared.db.replica import lease_record
from shared.db.replica.litestream_program import program
from shared.db.replica.object_store import open_store
from shared.db.replica.positions import litestream

MIGRATIONS = Path(__file__).parents[2] / "shared" / "db" / "migrations"
NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC


@dataclass
class Primary:
    """The live file and the URL of its replica."""

    path: Path
    url: str
    prefix: str = ""

    def begin_prefix(self, path: str, epoch: str, *, began_at: int = 0) -> None:
        """Replicate to a new prefix from now on, as the writer does after a restore; *epoch* is the database's."""
        self.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('epoch', ?)", [(epoch,)])
        store = open_store(self.url, litestream.environment_of(self.url))
        found = store.get(lease_record.NAME)
        record = lease_record.LeaseRecord.load(found.body) if found else lease_record.NO_RECORD
        before = record.current if found or lease_record.has_files(store, record.current) else None
        new = lease_record.ReplicaPrefix(path, epoch, "writer", began_at)
        record = record.with_new_prefix(new, keeping=before).with_full_copy(new, epoch)
        store.put(lease_record.NAME, record.dump(), replacing=found.tag if found else None)
        shutil.rmtree(self.path.with_name(f".{self.path.name}-litestream"), ignore_errors=True)
        self.prefix = path

    def execute(self, sql: str, rows: list[tuple[Any, ...]] | None = None) -> list[tuple[Any, ...]]:
        conn = apsw.Connection(str(self.path))
        try:
            conn.execute("PRAGMA wal_autocheckpoint = 0")
            if rows is None:
                return list(conn.execute(sql))
            with conn:
                conn.executemany(sql, rows)
            return []
        finally:
            conn.close()

    def receive(self, count: int, *, channel: str = "telegram", status: str = "pending", at: int = NOON) -> None:
        """Add messages, one millisecond apart."""
        (first,) = self.execute("SELECT ifnull(max(id), 0) FROM messages")[0]
        self.execute(
            "INSERT INTO messages"
            " (message_id, id_prefix, channel, sender, message, agent, session_id, status, created_at, updated_at)"
            " VALUES (?, 'm', ?, 'ann', 'grüße 🙂', 'a', 1, ?, ?, ?)",
            [(f"m_{first + i}", channel, status, at + i, at + i) for i in range(count)],
        )

    def happen(self, *types: str) -> None:
        """Add events."""
        self.execute("INSERT INTO events (type, created_at) VALUES (?, ?)", [(type_, NOON) for type_ in types])

    def replicate(self) -> None:
        done = subprocess.run(
            [program(), "replicate", "-once", str(self.path), lease_record.prefix_url(self.url, self.prefix)],
            env=litestream.environment_of(self.url),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr


@once
def migrated(migrations: int | None) -> bytes:
    """A database that the first *migrations* made; None: all of them. To make it takes a hundred times as long."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "primary.db"
        conn = apsw.Connection(str(path))
        conn.execute("PRAGMA journal_mode = WAL")
        for migration in sorted(MIGRATIONS.glob("*.sql"))[:migrations]:
            conn.execute(migration.read_text())
        conn.close()
        return path.read_bytes()


@pytest.fixture(scope="session")
def new_primary() -> Callable[..., Primary]:
    def new(path: Path, url: str, migrations: int | None = None) -> Primary:
        """*migrations*: how many of them made the database; all of them without it."""
        primary = Primary(path, url)
        path.write_bytes(migrated(migrations))
        primary.execute("INSERT INTO agents (id, name, created_at, updated_at) VALUES ('a', 'A', 1, 1)")
        primary.execute(
            "INSERT INTO sessions (id, session_id, agent, created_at, last_active) VALUES (1, 's', 'a', 1, 1)"
        )
        return primary

    return new


@pytest.fixture
def make_primary(new_primary: Callable[..., Primary], tmp_path: Path) -> Callable[..., Primary]:
    return lambda url, name="primary.db": new_primary(tmp_path / name, url)


@pytest.fixture
def primary(make_primary: Callable[..., Primary], tmp_path: Path) -> Primary:
    return make_primary(f"file://{tmp_path}/replica")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The endpoint of a moto server with a bucket named ``bucket``."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        direct.open(urllib.request.Request(f"{endpoint}/bucket", method="PUT"), timeout=30).close()
        yield endpoint
    finally:
        server.stop()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from spark_jobs.session import session

    spark = session("tests")
    yield spark
    spark.stop()
