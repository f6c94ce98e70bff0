"""A sweep keeps the write-ahead log short, beside its writers and readers."""

from functools import partial

from functions.sweep import Sweep
from shared.db.engine.connection import rows, transaction
from shared.db.engine.write_ahead_log import WriteAheadLog
from tests.functions.sweep.kit import DAY, done, run, sweep_at
from tests.functions.sweep.test_pruning import completed
from tests.support import NOW

SECOND_HEADER = 48  # in the index of the log (the -shm file), see https://sqlite.org/walformat.html


def test_the_log_of_pruning_is_checkpointed_beside_the_writers(conn):
    """No commit moves 40 MB: without Litestream, that held up all writers for 0.4 s."""
    completed(conn, 2000)
    rows(conn, "UPDATE messages SET message = hex(zeroblob(2000))")
    ((_, written, moved),) = rows(conn, "PRAGMA wal_checkpoint(NOOP)")
    assert (written > 2000, moved) == (True, 0)
    sweep_at(NOW + 2 * DAY)
    ((_, written, moved),) = rows(conn, "PRAGMA wal_checkpoint(NOOP)")
    assert written - moved < 1000


def test_a_look_at_the_log_while_a_commit_is_published_is_no_error(conn, db, capfd):
    """A writer that publishes its commit writes the header of the index twice, and holds the write lock."""
    log = WriteAheadLog(db)
    assert not log.relieve()
    with transaction(conn), db.with_name(f"{db.name}-shm").open("r+b") as index:
        index.seek(SECOND_HEADER)
        (before,) = index.read(1)
        index.seek(SECOND_HEADER)
        index.write(bytes([before ^ 1]))
        index.flush()
        assert not log.relieve()
        index.seek(SECOND_HEADER)
        index.write(bytes([before]))
    log.close()
    assert "checkpoint_failed" not in "".join(capfd.readouterr())


def test_a_sweep_waits_while_a_reader_keeps_the_log_long_and_leaves_the_rest(conn, other):
    """With each page more, the moment is nearer at which every writer waits."""
    completed(conn, 603)
    rows(other, "BEGIN")
    rows(other, "SELECT count(*) FROM messages")
    with transaction(conn):
        rows(
            conn,
            "INSERT INTO events (type, data, created_at) VALUES ('x', json_object('x', hex(zeroblob(17000000))), 1)",
        )
    swept = run(partial(Sweep, longest_s=0.2), NOW + 2 * DAY)
    first = swept.counts["pruned_messages"]
    assert 0 < first <= 25, "one batch, which is smaller where the disk is slow"
    assert "pruned_messages" in swept.left

    rows(other, "COMMIT")
    assert done(sweep_at(NOW + 2 * DAY))["pruned_messages"] == 602 - first


def test_a_short_log_is_left_to_litestream(conn):
    completed(conn, 300)
    sweep_at(NOW + 2 * DAY)
    assert rows(conn, "PRAGMA wal_checkpoint(NOOP)")[0][2] == 0
