"""After a restore, no number of a response is given out again."""

import pytest

from shared.core.errors import NotFound
from shared.db.engine import meta
from shared.db.engine.connection import rows, scalar, transaction
from shared.db.queue import dead_responses, fetched_responses, response_numbers
from shared.db.views import responses as views
from shared.roster.new_database import prepare_database
from tests.support import NOW, answer, column, dump


def restored(db, conn, epoch):
    """What a restore does to the file: it names another epoch; then a function starts."""
    with transaction(conn):
        meta.put(conn, "epoch", epoch)
    prepare_database(db)


def test_the_first_response_after_a_restore_has_a_number_beyond_all_that_were_lost(db, conn):
    answer(conn, "known to the replica")
    restored(db, conn, "epoch_2")
    answer(conn, "new")
    assert column(conn, "SELECT id FROM responses WHERE message <> ''") == [1, response_numbers.STEP + 2]
    restored(db, conn, "epoch_3")
    answer(conn, "newer")
    assert scalar(conn, "SELECT max(id) FROM responses") == 2 * response_numbers.STEP + 3


def test_a_replica_without_any_response_may_have_lost_some(db, conn):
    restored(db, conn, "epoch_2")
    answer(conn, "the first of the second history")
    assert column(conn, "SELECT id FROM responses WHERE message <> ''") == [response_numbers.STEP + 1]


def test_an_old_acknowledgement_hits_no_new_response(db, conn):
    """TinyAGI's clients acknowledge by number, perhaps after the disk that had it was lost."""
    answer(conn, "known to the replica")
    lost = 2
    restored(db, conn, "epoch_2")
    answer(conn, "new", channel="api")
    with transaction(conn), pytest.raises(NotFound):
        fetched_responses.ack(conn, lost, adapters=(), now_ms=NOW)
    assert column(conn, "SELECT status FROM responses WHERE message = 'new'") == ["pending"]


def test_a_start_of_the_same_history_changes_nothing(db, conn):
    answer(conn, "hello")
    restored(db, conn, "epoch_2")
    before = dump(conn)
    prepare_database(db)
    assert dump(conn) == before


def test_a_new_database_begins_with_one(conn):
    answer(conn, "hello")
    assert column(conn, "SELECT id FROM responses") == [1]


def test_the_row_that_keeps_the_place_is_in_no_list_and_goes(db, conn):
    answer(conn, "hello")
    restored(db, conn, "epoch_2")
    assert [each["message"] for each in views.recent_responses(conn, limit=10)] == ["hello"]
    answer(conn, "again")
    rows(conn, "UPDATE responses SET status = 'dead' WHERE message = 'hello'")
    with transaction(conn):
        dead_responses.delete(conn, 1, now_ms=NOW)
    assert column(conn, "SELECT message FROM responses") == ["again"]
