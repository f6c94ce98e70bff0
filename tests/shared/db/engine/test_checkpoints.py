"""Writers wait for Litestream's checkpoint only where that helps."""

import apsw
import pytest

from shared.db.engine import checkpoints
from shared.db.engine.checkpoints import WalBound
from shared.db.engine.connection import open_connection, rows, transaction

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
    assert first > 4, "it looks again and again, until the log begins again or the limit is reached"
    assert [questions(LONG + 1000 * step) for step in (1, 2, 3)] == [1, 1, 1]
    rows(reader, "COMMIT")
    rows(conn, "PRAGMA wal_checkpoint(PASSIVE)")  # as Litestream does
    assert questions(LONG + 4000) > 4
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
