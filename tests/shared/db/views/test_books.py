"""The books of a day: each accepted message in one column, and a row that vanished shows."""

import pytest

from shared.db.access import dropped
from shared.db.engine.connection import transaction
from shared.db.queue import messages
from shared.db.views import books
from tests.support import NOW, put, take

DAY = 86_400_000


def end(conn, row, status):
    with transaction(conn):
        conn.execute("UPDATE messages SET status = :status WHERE id = :id", {"status": status, "id": row})


def part(found, *names):
    return {name: found[name] for name in names}


def test_every_message_of_the_day_stands_in_one_column(conn):
    put(conn, "yesterday's", now_ms=NOW - DAY)
    for number, status in enumerate(("completed", "dead", "cancelled", "paused", "pending")):
        end(conn, put(conn, chat=str(number)), status)
    put(conn, "context", chat="7", trigger=False)
    put(conn, "runs", chat="8")
    take(conn, chat="8")
    with transaction(conn):
        dropped.record(conn, channel="telegram", reason="not_wired", now_ms=NOW)

    found = books.read(conn, NOW - 1000)

    of = ("answered", "context", "dead", "cancelled", "waiting", "running", "dropped")
    assert part(found, *of) == dict(zip(of, (1, 1, 1, 1, 2, 1, 1), strict=True))
    assert found["accepted"] == 8 == sum(found[name] for name in of)
    assert (found["balance"], found["missing"], found["deleted"]) == (True, 0, 0)


def test_a_row_that_vanished_makes_the_books_red(conn):
    lost, _ = put(conn), put(conn)
    with transaction(conn):
        conn.execute("DELETE FROM messages WHERE id = :id", {"id": lost})

    found = books.read(conn, NOW - 1000)

    assert part(found, "accepted", "waiting", "missing", "balance") == {
        "accepted": 2,
        "waiting": 1,
        "missing": 1,
        "balance": False,
    }


def test_what_an_operator_deleted_is_not_missing(conn):
    dead, _ = put(conn), put(conn)
    end(conn, dead, "dead")
    with transaction(conn):
        messages.delete(conn, dead, now_ms=NOW)

    found = books.read(conn, NOW - 1000)

    assert part(found, "accepted", "waiting", "deleted", "balance") == {
        "accepted": 2,
        "waiting": 1,
        "deleted": 1,
        "balance": True,
    }


@pytest.mark.parametrize(("since", "first"), [(0, 1), (10, 1), (11, 2), (30, 3), (31, 4)])
def test_the_first_row_of_an_instant_is_found_by_its_id(conn, since, first):
    for at in (10, 20, 30):
        put(conn, now_ms=NOW + at)

    assert books.first_since(conn, "messages", NOW + since) == first


def test_an_empty_database_balances(conn):
    found = books.read(conn, NOW)
    assert (found["accepted"], found["balance"], found["since"]) == (0, True, NOW)
