"""The write-ahead log stays bounded, with Litestream and without, and nothing of ours forces it to."""

import multiprocessing
import re
import sys
import time
from pathlib import Path

import pytest

from shared.db.engine.connection import open_connection, rows, transaction
from tests.infra.litestream.test_litestream import command
from tests.infra.processes import ROOT, Process, until

MB = 1_000_000
LARGEST = 64 * MB
BODY = 20_000  # bytes a transaction: some seven pages of the log


def _write(path, transactions, pause_s):
    conn = open_connection(path)
    rows(conn, "PRAGMA synchronous = NORMAL")
    for _ in range(transactions):
        with transaction(conn):
            rows(
                conn,
                "INSERT INTO events (type, data, created_at) VALUES ('x', json_object('x', hex(zeroblob(:size))), 1)",
                {"size": BODY // 2},
            )
        time.sleep(pause_s)
    conn.close()


def _read(path, over):
    """Read briefly again and again, as functions do."""
    conn = open_connection(path, readonly=True)
    while not over.is_set():
        rows(conn, "SELECT data FROM events ORDER BY id DESC LIMIT 20")
    conn.close()


def write_while_others_read(path, *, writers, transactions, pause_s):
    """The bytes that were written, and the size of the log, which never shrinks while a connection is open."""
    supervisor = open_connection(path)
    fork = multiprocessing.get_context("spawn")
    over = fork.Event()
    readers = [fork.Process(target=_read, args=(path, over)) for _ in range(2)]
    running = [fork.Process(target=_write, args=(path, transactions, pause_s)) for _ in range(writers)]
    for process in (*readers, *running):
        process.start()
    for process in running:
        process.join(120)
    over.set()
    for process in readers:
        process.join(60)
    size = Path(f"{path}-wal").stat().st_size
    supervisor.close()
    assert [process.exitcode for process in (*running, *readers)] == [0] * (writers + 2)
    return writers * transactions * BODY, size


@pytest.mark.long
def test_without_litestream_the_log_is_bounded_by_our_own_checkpoint(db):
    """At 10 000 pages, 40 MB, the log is used again from its beginning as soon as no reader needs the old part."""
    written, size = write_while_others_read(db, writers=2, transactions=2500, pause_s=0.0)
    assert written > LARGEST
    assert size <= LARGEST


@pytest.mark.long
def test_a_long_reader_makes_the_log_grow_only_while_it_reads(db, conn):
    """No reader is stopped for it: the log is used again within the next thousand pages or so."""
    log = Path(f"{db}-wal")
    rows(conn, "PRAGMA synchronous = NORMAL")
    megabyte = f'"{"x" * MB}"'

    def write(megabytes):
        for _ in range(megabytes):
            with transaction(conn):
                rows(conn, "INSERT INTO events (type, data, created_at) VALUES ('x', :data, 1)", {"data": megabyte})

    reader = open_connection(db, readonly=True)
    rows(reader, "BEGIN")
    rows(reader, "SELECT count(*) FROM events")
    write(60)
    held_up = log.stat().st_size
    assert held_up > 60 * MB
    rows(reader, "COMMIT")
    write(40)
    assert log.stat().st_size < held_up + 10 * MB
    reader.close()


@pytest.mark.long
def test_with_litestream_the_log_is_bounded_too(db, tmp_path):
    environment = {
        "POSTROOM_DB": str(db),
        "POSTROOM_REPLICA_URL": f"file://{tmp_path}/replica",
        "POSTROOM_LITESTREAM_SOCKET": str(tmp_path / "litestream.sock"),
    }
    replicate = Process(sys.executable, *command("litestream")[1:], environment=environment)
    try:
        until((tmp_path / "litestream.sock").is_socket, "the control socket is not there")
        written, size = write_while_others_read(db, writers=2, transactions=1800, pause_s=0.01)
    finally:
        replicate.close()
    assert written > LARGEST
    assert size <= LARGEST


FORCED = re.compile(
    r"(wal_checkpoint\b.*|checkpoint_)(truncate|restart|full)|wal_checkpoint\(.*\bmode\b(?!=apsw.SQLITE_CHECKPOINT_NOOP\))",
    re.IGNORECASE,
)
SOURCES = ("shared", "functions", "infra", "emulator", "spark_jobs")


def forced(text):
    return [line.strip() for line in text.splitlines() if FORCED.search(line)]


def test_nothing_of_ours_forces_a_checkpoint():
    """TRUNCATE, RESTART and FULL take the write lock and then wait for readers, of which Litestream is always one."""
    texts = {
        path.relative_to(ROOT): path.read_text("utf-8")
        for folder in SOURCES
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".sql", ".sh", ".yml"} or path.name == "Dockerfile"
    }
    assert len(texts) > 50
    assert {str(path): lines for path, text in texts.items() if (lines := forced(text))} == {}


@pytest.mark.parametrize(
    ("line", "is_forced"),
    [
        ('rows(conn, "PRAGMA wal_checkpoint(TRUNCATE)")', True),
        ('rows(conn, "PRAGMA wal_checkpoint = restart")', True),
        ('rows(conn, "PRAGMA main.wal_checkpoint(FULL)")', True),
        ("conn.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)", True),
        ('rows(conn, "PRAGMA wal_checkpoint(PASSIVE)")', False),
        ("PRAGMA wal_checkpoint( passive )", False),
        ("conn.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)", False),
    ],
)
def test_each_way_to_force_a_checkpoint_is_recognized(line, is_forced):
    assert bool(forced(line)) == is_forced
