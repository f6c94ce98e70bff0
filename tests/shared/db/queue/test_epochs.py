"""After a restore, no id of a response or of an event is given out again."""

import apsw
import pytest

from infra.litestream.restored_files import write_epoch
from shared.core.errors import NotFound
from shared.db.engine import meta
from shared.db.engine.connection import rows, scalar, transaction
from shared.db.queue import dead_responses, epochs, events, fetched_responses
from shared.db.queue.events import NewEvent
from shared.db.views import responses as views
from shared.roster.new_database import prepare_database
from tests.support import NOW, answer, begin_epoch, column, dump


def happen(conn, type_, *, now_ms=NOW, count=1):
    with transaction(conn):
        events.append_many(conn, [NewEvent(type_, now_ms)] * count)


def told(conn, after=0):
    return [(each.id, each.type, each.data) for each in events.after(conn, after, limit=100)]


def test_the_first_response_after_a_restore_has_a_number_beyond_all_that_were_lost(conn):
    answer(conn, "known to the replica")
    begin_epoch(conn, "epoch_2")
    answer(conn, "new")
    assert column(conn, "SELECT id FROM responses WHERE message <> ''") == [1, epochs.STEP + 2]
    begin_epoch(conn, "epoch_3")
    answer(conn, "newer")
    assert scalar(conn, "SELECT max(id) FROM responses") == 2 * epochs.STEP + 3


def test_the_first_event_after_a_restore_says_what_is_known_of_the_history_before(conn):
    happen(conn, "known")
    begin_epoch(conn, "epoch_2")
    happen(conn, "new")
    begin_epoch(conn, "epoch_3")
    step = epochs.STEP
    assert told(conn) == [
        (1, "known", {}),
        (step + 1, "epoch_began", {"after": 1}),
        (step + 2, "new", {}),
        (2 * step + 2, "epoch_began", {"after": step + 2}),
    ]


def test_a_replica_without_any_row_may_have_lost_some(conn):
    with transaction(conn):
        meta.put(conn, "began_at", str(NOW))
    begin_epoch(conn, "epoch_2", now_ms=NOW + 60_000)
    skipped = epochs.STEP + 60_000 * epochs.PER_MS
    assert told(conn) == [(skipped, "epoch_began", {"after": 0})]
    answer(conn, "the first of the second history")
    assert column(conn, "SELECT id FROM responses WHERE message <> ''") == [skipped + 1]


def test_an_old_acknowledgement_hits_no_new_response(conn):
    """TinyAGI's clients acknowledge by number, perhaps after the disk that had it was lost."""
    answer(conn, "known to the replica")
    lost = 2
    begin_epoch(conn, "epoch_2")
    answer(conn, "new", channel="api")
    with transaction(conn), pytest.raises(NotFound):
        fetched_responses.ack(conn, lost, adapters=(), now_ms=NOW)
    assert column(conn, "SELECT status FROM responses WHERE message = 'new'") == ["pending"]


def history(known, epoch, *, now_ms):
    """The ids of the events after a restore of what is known."""
    conn = apsw.Connection("")
    with conn.backup("main", known, "main") as copy:
        copy.step()
    begin_epoch(conn, epoch, now_ms=now_ms)
    happen(conn, "new", now_ms=now_ms, count=5000)
    return set(column(conn, "SELECT id FROM events WHERE type <> 'known'"))


def test_a_history_that_left_nothing_in_the_replica_shares_no_id_with_the_next(conn):
    """The machine that restores is lost too, before its first copy is in the bucket."""
    happen(conn, "known")
    lost, found = (history(conn, f"epoch_{at}", now_ms=NOW + 1000 * at) for at in (2, 3))
    assert max(lost) < min(found)


def test_the_next_start_after_a_restore_begins_the_ids_once(db, conn):
    answer(conn, "hello")
    write_epoch(db, "epoch_2")
    prepare_database(db)
    assert scalar(conn, "SELECT max(id) FROM events WHERE type = 'epoch_began'") > epochs.STEP
    before = dump(conn)
    prepare_database(db)
    assert dump(conn) == before


def test_a_clock_that_was_set_back_leaves_out_as_many_as_ever(conn):
    happen(conn, "known", now_ms=NOW + 5000)
    begin_epoch(conn)
    assert column(conn, "SELECT max(id) FROM events") == [1 + epochs.STEP]


def test_a_new_database_begins_with_one(conn):
    answer(conn, "hello")
    assert column(conn, "SELECT id FROM responses") == [1]
    assert column(conn, "SELECT id FROM events") == [1]


def of_an_earlier_release(conn):
    answer(conn, "hello")
    rows(conn, "DELETE FROM meta WHERE key = 'numbered_epoch'")


def test_an_upgrade_skips_no_ids(db, conn):
    of_an_earlier_release(conn)
    before = dump(conn)
    prepare_database(db)
    assert {**dump(conn), "meta": before["meta"]} == before
    assert meta.get(conn, "numbered_epoch") == meta.get(conn, "epoch")


def test_a_restore_of_what_an_earlier_release_wrote_skips_them(conn):
    of_an_earlier_release(conn)
    begin_epoch(conn, "epoch_2")
    assert column(conn, "SELECT id FROM responses") == [1, epochs.STEP + 1]


def test_the_row_that_keeps_the_place_is_in_no_list_and_goes(conn):
    answer(conn, "hello")
    begin_epoch(conn, "epoch_2")
    assert [each["message"] for each in views.recent_responses(conn, limit=10)] == ["hello"]
    answer(conn, "again")
    rows(conn, "UPDATE responses SET status = 'dead' WHERE message = 'hello'")
    with transaction(conn):
        dead_responses.delete(conn, 1, now_ms=NOW)
    assert column(conn, "SELECT message FROM responses") == ["again"]
