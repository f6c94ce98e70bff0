"""From the first release's schema to the queue's: everything that was there is there, and goes on."""

import json

import apsw
import pytest

from shared.db.engine import meta
from shared.db.engine.connection import rows, transaction
from shared.db.engine.migrate import migrate
from shared.db.queue import claims, messages, ready_sessions, responses
from shared.db.queue.messages import NewMessage
from shared.queue import turns
from shared.queue.turns import RetryPolicy
from tests.shared.db.engine.earlier_databases import make_first
from tests.support import NOW, column, dump

POLICY = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=0.0)


@pytest.fixture
def old(tmp_path):
    conn = make_first(tmp_path / "p.db")
    yield tmp_path / "p.db", conn
    conn.close()


def columns(conn, table):
    return [name for _, name, *_ in rows(conn, f"PRAGMA table_xinfo({table})")]


def test_every_row_is_there_with_all_that_stood_in_it(old):
    path, conn = old
    tables = [table for table in dump(conn) if table != "meta"]
    kept = {table: columns(conn, table) for table in tables}
    before = {table: rows(conn, f"SELECT {', '.join(kept[table])} FROM {table} ORDER BY 1") for table in tables}
    assert migrate(path) >= 2
    for table in tables:
        assert rows(conn, f"SELECT {', '.join(kept[table])} FROM {table} ORDER BY 1") == before[table]
    assert meta.get(conn, "epoch") == "epoch_12345678"
    assert rows(conn, "PRAGMA foreign_key_check") == []
    assert column(conn, "PRAGMA integrity_check") == ["ok"]


def test_messages_are_found_under_the_ids_that_people_know(old):
    path, conn = old
    migrate(path)
    for row_id, message_id in rows(conn, "SELECT id, message_id FROM messages"):
        assert message_id == f"telegram_zzzz{row_id - 1:04d}"
        assert messages.find(conn, message_id) == row_id
    assert messages.find(conn, "telegram_zzzz0004") is None


def test_ids_continue_and_no_arrival_is_announced_twice(old):
    path, conn = old
    migrate(path)
    assert not messages.is_unannounced(conn)
    new = NewMessage("telegram", "telegram", sender="Ana", agent="assistant", session_id=1, event_key="e99")
    newest_event = column(conn, "SELECT max(id) FROM events")[0]
    with transaction(conn):
        row_id = messages.enqueue(conn, new, now_ms=NOW)
        assert messages.announce(conn) == 1
    assert row_id == 13
    assert rows(conn, "SELECT id, message_id FROM events WHERE id > ?", (newest_event,)) == [
        (newest_event + 1, messages.id_of(conn, 13))
    ]


def test_an_event_of_before_is_known_and_a_series_has_one_live_row(old):
    path, conn = old
    migrate(path)
    new = NewMessage("telegram", "telegram", sender="Ana", agent="assistant", session_id=1)
    with transaction(conn):
        assert messages.enqueue(conn, new._replace(event_key="e3"), now_ms=NOW) is None
    series = {"recurrence": "0 9 * * *", "timezone": "UTC", "scheduled_at": NOW, "series_id": "series_1"}
    with pytest.raises(apsw.ConstraintError), transaction(conn):
        messages.enqueue(conn, new._replace(**series), now_ms=NOW)


def test_a_running_turn_can_settle_or_be_rescued(old):
    path, conn = old
    migrate(path)
    ((claim, lease),) = claims.running(conn)
    assert (claim.token, lease, [message.id for message in claim.batch]) == ("turn_old", NOW + 1000, [3, 4])
    assert claims.is_held(conn, claim)
    with transaction(conn):
        assert turns.rescue(conn, POLICY, now_ms=NOW + 1001) == [claim]
    assert rows(conn, "SELECT status, retry_count FROM messages WHERE id IN (3, 4)") == [("pending", 2), ("pending", 2)]


def test_a_message_that_lost_its_process_twice_stays_a_suspect(old):
    path, conn = old
    rows(conn, "UPDATE messages SET last_error = 'the process that ran the turn went away' WHERE id = 1")
    migrate(path)
    assert rows(conn, "SELECT id, retry_count FROM messages WHERE suspicion = 20") == [(1, 2)]
    assert [each.is_suspect for each in ready_sessions.find(conn, now_ms=NOW + 2000)] == []
    with transaction(conn):
        turns.rescue(conn, POLICY, now_ms=NOW, everything=True)
    assert [each.is_suspect for each in ready_sessions.find(conn, now_ms=NOW + 10**6)] == [True]


def test_pending_messages_are_claimed_and_pending_responses_sent(old):
    path, conn = old
    migrate(path)
    with transaction(conn):
        turns.rescue(conn, POLICY, now_ms=NOW, everything=True)
    later = NOW + 10**6
    (ready,) = ready_sessions.find(conn, now_ms=later)
    with transaction(conn):
        claim = claims.claim(conn, "assistant", ready.session_id, token="t", now_ms=later, lease_ms=1000, limit=10)
    assert [message.message for message in claim.asked] == ["text 0"]
    assert claim.asked[0].content == {"context": {"a": 1}}
    assert responses.heads(conn, "telegram", now_ms=NOW) == [2]
    assert json.loads(column(conn, "SELECT files FROM messages WHERE id = 1")[0]) == ["f"]


def test_a_migration_that_fails_in_the_middle_leaves_the_file_as_it_was(old):
    path, conn = old
    rows(conn, "CREATE TABLE approvals (in_the_way)")
    before = dump(conn)
    with pytest.raises(apsw.SQLError, match="approvals"):
        migrate(path)
    assert dump(conn) == before
    rows(conn, "DROP TABLE approvals")
    assert migrate(path) >= 2
