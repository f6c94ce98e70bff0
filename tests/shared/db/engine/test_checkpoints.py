"""Writers wait for Litestream's checkpoint only where that helps."""

import contextlib
import errno
import os
from pathlib import Path

import apsw
import pytest

from shared.db.engine import checkpoints
from shared.db.engine.checkpoints import WalBound
from shared.db.engine.connection import open_connection, rows, transaction, writers_held

LONG = 10_000  # pages


def grow(conn, pages):
    with transaction(conn):
        rows(
            conn,
            "INSERT INTO events (type, data, created_at) VALUES ('x', json_object('x', hex(zeroblob(:half))), 1)",
            {"half": pages * 2048},
        )


class Asked(apsw.Connection):
    """A connection that counts the questions about the log."""

    def __init__(self, db):
        super().__init__(str(db))
        self.asked = 0

    def wal_checkpoint(self, *words, **options):
        self.asked += 1
        return super().wal_checkpoint(*words, **options)


@pytest.fixture
def _litestream(db):
    """Litestream runs: it has the checkpoint lock."""
    lock = checkpoints.lock(db)
    assert lock.try_acquire()
    yield
    lock.release()


@pytest.mark.usefixtures("_litestream")
def test_a_wait_for_litestream_in_vain_is_not_repeated_before_it_moves_a_page(db, conn):
    """A comparison, or a search, reads: each wait holds up every writer, and ends nothing."""
    bound, writer = WalBound(), Asked(db)
    reader = open_connection(db, readonly=True)
    rows(reader, "BEGIN")
    rows(reader, "SELECT count(*) FROM events")
    grow(conn, LONG + 5000)

    def questions(pages):
        rows(writer, "SELECT count(*) FROM meta")  # it knows the log, as after a commit
        writer.asked = 0
        bound(writer, "main", pages)
        return writer.asked

    first = questions(LONG)
    assert first > 1, "it looks again and again, until the log begins again or the limit is reached"
    assert [questions(LONG + 1000 * step) for step in (1, 2, 3)] == [1, 1, 1]
    rows(reader, "COMMIT")
    rows(conn, "PRAGMA wal_checkpoint(PASSIVE)")  # as Litestream does
    assert questions(LONG + 4000) > 1
    reader.close()
    writer.close()


def test_the_log_is_strained_while_it_is_long_and_a_reader_keeps_it_from_the_database(db, conn):
    grow(conn, 100)
    assert not checkpoints.is_strained(conn)
    reader = open_connection(db, readonly=True)
    rows(reader, "BEGIN")
    rows(reader, "SELECT count(*) FROM events")
    grow(conn, LONG - 2000)
    assert checkpoints.is_strained(conn)
    rows(reader, "COMMIT")
    conn.wal_checkpoint()
    assert not checkpoints.is_strained(conn), "the next writer begins it again"
    reader.close()


class Overtaken(apsw.Connection):
    """A connection beside a writer that commits during each of its first checkpoints."""

    def __init__(self, db, writer, commits):
        super().__init__(str(db))
        rows(self, "SELECT count(*) FROM meta")  # it knows the log
        self.db, self.writer, self.commits = db, writer, commits
        self.checkpoints = 0

    def wal_checkpoint(self, **options):
        if options:  # it only looks
            return super().wal_checkpoint(**options)
        self.checkpoints += 1
        if self.checkpoints > self.commits:
            return super().wal_checkpoint()
        with reading(self.db):
            found = super().wal_checkpoint()
            grow(self.writer, 1)
        return found


@contextlib.contextmanager
def reading(db):
    """A reader of the present state: a checkpoint moves the log up to here, and no writer begins it again."""
    reader = open_connection(db, readonly=True)
    rows(reader, "BEGIN")
    rows(reader, "SELECT count(*) FROM events")
    yield
    reader.close()


def state(conn):
    return conn.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)


@pytest.mark.parametrize(("commits", "expected"), [(0, 1), (2, 3), (100, 5)])
def test_a_checkpoint_is_repeated_a_few_times_until_no_commit_comes_meanwhile(db, conn, commits, expected):
    """Else the log grows, although nearly all of it is moved, until every writer waits."""
    relieving = Overtaken(db, conn, commits)
    grow(conn, 1200)
    checkpoints.checkpoint_if_long(relieving)
    assert relieving.checkpoints == expected
    assert checkpoints.begins_again(conn) == (commits < 5)
    relieving.close()


def test_a_checkpoint_that_a_reader_holds_up_is_not_repeated(db, conn):
    relieving = Overtaken(db, conn, 0)
    with reading(db):
        grow(conn, 1200)
        checkpoints.checkpoint_if_long(relieving)
    assert relieving.checkpoints == 2
    relieving.close()


def test_what_an_overtaken_checkpoint_wrote_is_sent_to_the_disk_before_the_next(db, conn):
    """SQLite leaves all of it to the last one, which holds up the writers."""
    relieving = Overtaken(db, conn, 2)
    grow(conn, 1200)
    synced = []

    def sync(fd):
        synced.append((relieving.checkpoints, os.path.samestat(os.fstat(fd), db.stat())))

    checkpoints.checkpoint_if_long(relieving, sync=sync)
    assert synced == [(1, True), (2, True)]
    relieving.close()


def test_a_disk_that_could_not_keep_it_is_reported(db, conn):
    """Linux says so once to each descriptor: the sync of SQLite that follows succeeds, and the pages are lost."""
    relieving = Overtaken(db, conn, 2)
    grow(conn, 1200)

    def sync(_):
        raise OSError(errno.EIO, "the disk failed")

    with pytest.raises(OSError, match="the disk failed"):
        checkpoints.checkpoint_if_long(relieving, sync=sync)
    assert relieving.checkpoints == 1
    checkpoint_lock = checkpoints.lock(db)
    assert checkpoint_lock.try_acquire()
    checkpoint_lock.release()
    relieving.close()


def test_the_descriptor_of_a_database_is_the_one_that_sqlite_has(db, conn, tmp_path):
    """Opening and closing one of our own would drop SQLite's locks."""
    before = len(list(Path("/dev/fd").iterdir()))
    assert os.path.samestat(os.fstat(checkpoints.descriptor(db)), db.stat())
    other = tmp_path / "other"
    other.write_bytes(b"")
    assert checkpoints.descriptor(other) is None
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_the_last_pages_of_a_long_log_are_moved_while_writers_wait(db, conn):
    grow(conn, 100)
    conn.wal_checkpoint()
    grow(conn, 1)
    assert not checkpoints.is_nearly_moved(conn), "it is short"
    grow(conn, 4000)
    assert not checkpoints.is_nearly_moved(conn), "much of it is to be moved"
    with reading(db):
        conn.wal_checkpoint()
        assert not checkpoints.is_nearly_moved(conn), "all of it is moved"
        grow(conn, 10)
    assert checkpoints.is_nearly_moved(conn)
    with writers_held(conn):
        checkpoints.finish(conn)
    assert checkpoints.begins_again(conn)
    grow(conn, 1)
    assert state(conn)[0] < 100
    assert not checkpoints.begins_again(conn)


@pytest.mark.usefixtures("_litestream")
def test_the_last_pages_are_litestreams_while_it_runs(conn):
    grow(conn, 10)
    before = state(conn)
    checkpoints.finish(conn)
    assert state(conn) == before
