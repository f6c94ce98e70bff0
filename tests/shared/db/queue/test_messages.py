import apsw
import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import messages
from shared.db.queue.claims import MessageVerdict
from tests.shared.db.queue.claiming import complete, fail
from tests.support import NOW, column, make_agent, put, take

# -- enqueue


def test_one_row_per_platform_event_and_agent(conn):
    make_agent(conn, "second")
    assert put(conn, event_key="730") is not None
    assert put(conn, event_key="730") is None
    assert put(conn, event_key="730", agent="second") is not None
    assert put(conn, event_key="731") is not None
    assert column(conn, "SELECT count(*) FROM messages") == [3]


def test_messages_without_a_platform_event_are_never_taken_for_each_other(conn):
    assert put(conn, "same") is not None
    assert put(conn, "same") is not None


def test_a_message_id_is_given_once(conn):
    put(conn, given_id="api_00000001")
    with pytest.raises(apsw.ConstraintError):
        put(conn, given_id="api_00000001")
    assert column(conn, "SELECT count(*) FROM messages") == [1]


# -- prune and counts


def prune(conn, *, after_id=0, older_than_ms=NOW, limit=100):
    with transaction(conn):
        return messages.prune(conn, after_id=after_id, older_than_ms=older_than_ms, limit=limit)


def test_prune_deletes_old_completed_messages_only(conn):
    old, edge = NOW - 1, NOW
    for chat, text in enumerate(("completed", "dead", "pending", "processing", "recurring", "late", "young", "newest")):
        put(conn, text, chat=str(chat), now_ms=edge if text == "young" else old)
    with transaction(conn):
        rows(conn, "UPDATE messages SET status = 'completed' WHERE message IN ('completed', 'late', 'young', 'newest')")
        rows(conn, "UPDATE messages SET updated_at = :now WHERE message = 'late'", {"now": edge})
        rows(conn, "UPDATE messages SET status = 'dead' WHERE message = 'dead'")
        rows(
            conn, "UPDATE messages SET status = 'processing', claimed_by = 'x', lease = 1 WHERE message = 'processing'"
        )
        rows(
            conn,
            "UPDATE messages SET status = 'completed', recurrence = '* * * * *', timezone = 'UTC', series_id = 's',"
            " scheduled_at = 1 WHERE message = 'recurring'",
        )
    assert prune(conn) == (1, 0)
    kept = column(conn, "SELECT message FROM messages ORDER BY id")
    assert kept == ["dead", "pending", "processing", "recurring", "late", "young", "newest"]


def test_prune_walks_in_bounded_steps(conn):
    for _ in range(7):
        put(conn, now_ms=NOW - 1)
    with transaction(conn):
        rows(conn, "UPDATE messages SET status = 'completed'")
    assert prune(conn, limit=3) == (3, 3)
    assert prune(conn, after_id=3, limit=3) == (3, 6)
    assert prune(conn, after_id=6, limit=3) == (0, 0)
    assert column(conn, "SELECT id FROM messages") == [7]


def test_prune_looks_at_no_more_young_rows_than_one_step(conn):
    """A million messages of today must not be read, in a write transaction, to find none of yesterday."""
    put(conn, now_ms=NOW - 1)
    for _ in range(9):
        put(conn)
    assert prune(conn, limit=4) == (0, 4)
    assert prune(conn, after_id=4, limit=4) == (0, 0)


def test_the_newest_id_is_never_used_again(conn):
    put(conn, now_ms=NOW - 1)
    with transaction(conn):
        rows(conn, "UPDATE messages SET status = 'completed'")
    assert prune(conn) == (0, 0)
    assert put(conn) == 2


def test_counts_are_by_status_and_include_pruned_messages(conn):
    for chat in "abcdef":
        put(conn, chat=chat, now_ms=NOW - 1)
    put(conn, chat="a", trigger=False)
    fail(conn, take(conn, chat="b"), MessageVerdict(True, 5, None, "x"))
    complete(conn, take(conn, chat="c"), now_ms=NOW - 1)
    complete(conn, take(conn, chat="d"), now_ms=NOW - 1)
    take(conn, chat="e")
    expected = {"pending": 2, "processing": 1, "dead": 1, "completed": 2}
    assert messages.counts(conn) == expected
    assert prune(conn)[0] == 2
    assert messages.counts(conn) == expected
