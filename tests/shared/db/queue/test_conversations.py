import pytest

from shared.db.engine.connection import transaction
from shared.db.queue import conversations
from tests.support import NOW, column, plan, row

IDLE = 30 * 60 * 1000


def begin(conn, now_ms=NOW):
    with transaction(conn):
        return conversations.begin(conn, now_ms=now_ms)


def touch(conn, id_, now_ms):
    with transaction(conn):
        return conversations.touch(conn, id_, now_ms=now_ms)


def close(conn, now_ms, limit=9):
    with transaction(conn):
        return conversations.close_idle(conn, idle_since_ms=now_ms - IDLE, limit=limit, now_ms=now_ms)


def test_a_conversation_begins_open(conn):
    id_ = begin(conn)
    assert tuple(row(conn, "conversations", id_).values()) == (id_, "open", NOW, NOW)


def test_it_is_closed_after_thirty_minutes_without_a_word_and_not_before(conn):
    id_ = begin(conn)
    assert touch(conn, id_, NOW + 5)
    assert close(conn, NOW + 5 + IDLE) == 0
    assert close(conn, NOW + 6 + IDLE) == 1
    assert tuple(row(conn, "conversations", id_).values()) == (id_, "closed", NOW, NOW + 5)
    assert row(conn, "events")["type"] == "conversation_closed"
    assert close(conn, NOW + 7 + IDLE) == 0


def test_a_closed_one_stays_closed_and_what_follows_is_a_new_one(conn):
    id_ = begin(conn)
    close(conn, NOW + IDLE + 1)
    assert not touch(conn, id_, NOW + IDLE + 2)
    with transaction(conn):
        fresh = conversations.carry_on(conn, id_, now_ms=NOW + IDLE + 2)
        assert conversations.carry_on(conn, fresh, now_ms=NOW + IDLE + 3) == fresh
    assert fresh != id_
    assert row(conn, "conversations", id_)["status"] == "closed"
    assert tuple(row(conn, "conversations", fresh).values()) == (fresh, "open", NOW + IDLE + 2, NOW + IDLE + 3)


@pytest.mark.parametrize("id_", [None, "conversation_00000000", "anything"])
def test_what_follows_none_that_there_is_begins_one(conn, id_):
    with transaction(conn):
        assert conversations.carry_on(conn, id_, now_ms=NOW) not in (None, id_)


def test_a_clock_that_goes_back_closes_no_conversation(conn):
    id_ = begin(conn)
    touch(conn, id_, NOW - IDLE)
    assert row(conn, "conversations", id_)["last_active"] == NOW


def test_the_idlest_are_closed_first_a_batch_at_a_time(conn):
    ids = [begin(conn, NOW + step) for step in range(5)]
    assert close(conn, NOW + IDLE + 100, limit=2) == 2
    assert [row(conn, "conversations", id_)["status"] for id_ in ids] == ["closed", "closed", "open", "open", "open"]
    assert close(conn, NOW + IDLE + 100, limit=9) == 3


def test_closed_ones_are_forgotten_and_open_ones_not_however_old(conn):
    old = [begin(conn, NOW + step) for step in range(5)]
    close(conn, NOW + IDLE + 3)
    pruned, after = 0, ""
    while True:
        with transaction(conn):
            count, after = conversations.prune(conn, after=after, older_than_ms=NOW + 2, limit=2)
        pruned += count
        if after == "":
            break
    assert pruned == 2
    assert column(conn, "SELECT id FROM conversations ORDER BY created_at") == old[2:]


def test_idle_ones_are_found_by_their_index(conn):
    lines = plan(conn, conversations.IDLE, before=NOW, limit=9)
    assert any("conversations_open (last_active<?)" in line for line in lines), lines
    assert not any("SCAN" in line or "TEMP" in line for line in lines), lines
