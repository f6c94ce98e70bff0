import pytest

from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.queue import dead_responses, fetched_responses, responses
from shared.db.views import responses as response_views
from shared.db.views.work import Filter
from tests.support import NOW, answer, column, plan, row

DAY = 24 * 60 * 60 * 1000


def give_up(conn, now_ms, *, forget_older_than_ms=0, limit=100, after_id=0):
    """A step of the walk, for a retention of a day; Telegram has an adapter here."""
    with transaction(conn):
        return fetched_responses.give_up(
            conn,
            adapters=["telegram"],
            after_id=after_id,
            older_than_ms=now_ms - DAY,
            forget_older_than_ms=forget_older_than_ms,
            limit=limit,
            now_ms=now_ms,
        )


def dead(conn, text="hi", **fields):
    id_ = answer(conn, text, **fields)
    rows(
        conn,
        """
        UPDATE responses
           SET status = 'dead', last_error = 'blocked', retry_count = 5, parts = '["7"]', part_started = 1
         WHERE id = :id
        """,
        {"id": id_},
    )
    return id_


def test_a_retried_response_goes_out_again_and_keeps_the_parts_that_arrived(conn):
    id_ = dead(conn)
    with transaction(conn):
        dead_responses.retry(conn, id_, now_ms=NOW + 5)
    found = row(conn, "responses", id_)
    names = ("status", "retry_count", "last_error", "part_started", "parts", "deliver_after")
    assert [found[name] for name in names] == ["pending", 0, None, None, '["7"]', NOW + 5]
    assert responses.heads(conn, "telegram", now_ms=NOW + 5) == [id_]
    assert column(conn, "SELECT type FROM events ORDER BY id DESC LIMIT 1") == ["response_retried"]


def test_dead_responses_are_retried_in_steps_oldest_first(conn):
    first, second, third, gone = (dead(conn) for _ in range(4))
    with transaction(conn):
        dead_responses.delete(conn, gone, now_ms=NOW)
        assert dead_responses.retry_many(conn, after=0, limit=2, now_ms=NOW) == [first, second]
    rows(conn, "UPDATE responses SET status = 'dead', last_error = 'again' WHERE id = :id", {"id": first})
    with transaction(conn):
        assert dead_responses.retry_many(conn, after=second, limit=2, now_ms=NOW) == [third]
    assert rows(conn, "SELECT status, last_error FROM responses WHERE status NOT IN ('pending') ORDER BY id") == [
        ("dead", "again"),
        ("deleted", None),
    ]


def test_dead_responses_are_found_by_their_index(conn):
    (line,) = plan(conn, dead_responses.DEAD_AFTER, after=1, limit=1)
    assert line == "SEARCH responses USING INDEX responses_dead (id>?)"


@pytest.mark.parametrize("verb", [dead_responses.retry, dead_responses.delete])
def test_only_a_dead_response_is_retried_or_deleted(conn, verb):
    id_ = answer(conn)
    with pytest.raises(WrongState, match=f"response {id_} is pending; only a dead one"), transaction(conn):
        verb(conn, id_, now_ms=NOW)
    with pytest.raises(NotFound, match="no response 4000"), transaction(conn):
        verb(conn, 4000, now_ms=NOW)
    assert column(conn, "SELECT status FROM responses") == ["pending"]


def test_a_deleted_response_is_gone_and_its_id_is_never_used_again(conn):
    """Approvals know their card by its id: another response under it would be taken for the card."""
    older, newest = dead(conn, "older"), dead(conn, "a secret")
    with transaction(conn):
        dead_responses.delete(conn, newest, now_ms=NOW)
    assert column(conn, "SELECT message FROM responses ORDER BY id") == ["older", ""]
    assert [each["id"] for each in response_views.dead_responses(conn, Filter(), limit=10, now_ms=NOW)] == [older]
    for verb in (dead_responses.retry, dead_responses.delete):
        with pytest.raises(NotFound), transaction(conn):
            verb(conn, newest, now_ms=NOW)
    next_ = answer(conn)
    assert next_ > newest
    with transaction(conn):
        dead_responses.delete(conn, older, now_ms=NOW)
    assert column(conn, "SELECT id FROM responses") == [next_]


WAITING = {
    "for a program, for long": ("api", {"chat_id": None}, "dead"),
    "for a program, in a chat of its own": ("api", {}, "dead"),
    "for a program of a channel that has an adapter": ("telegram", {"chat_id": None}, "dead"),
    "for the adapter": ("telegram", {}, "pending"),
    "for a program, since less than a day": ("api", {"chat_id": None, "created_at": NOW}, "pending"),
    "for a later instant": ("api", {"chat_id": None, "deliver_after": NOW + DAY}, "pending"),
    "again, since less than a day": ("api", {"chat_id": None, "deliver_after": NOW}, "pending"),
    "and is being sent": (
        *("api", {"chat_id": None, "status": "delivering", "claimed_by": "x", "lease": 1}, "delivering"),
    ),
}


@pytest.mark.parametrize(("channel", "fields", "status"), WAITING.values(), ids=WAITING)
def test_only_unfetched_responses_expire(conn, channel, fields, status):
    id_ = answer(conn, channel=channel, now_ms=NOW - 2 * DAY)
    changes = ", ".join(f"{name} = :{name}" for name in fields)
    if fields:
        rows(conn, f"UPDATE responses SET {changes}", fields)
    count, _ = give_up(conn, NOW + 1)
    assert (row(conn, "responses", id_)["status"], count) == (status, int(status == "dead"))
    if status == "dead":
        assert row(conn, "responses", id_)["last_error"] == "no client fetched it in time"
        (told,) = rows(conn, "SELECT type, response_id, data FROM events ORDER BY id DESC LIMIT 1")
        assert told == ("response_dead", id_, '{"reason": "no client fetched it in time", "failure": "not_fetched"}')


def test_expired_responses_are_deleted_later_and_other_dead_ones_stay(conn):
    for _ in range(2):
        answer(conn, channel="api", now_ms=NOW)
    failed, newest = dead(conn, now_ms=NOW), answer(conn, channel="api", now_ms=NOW)
    later = NOW + 2 * DAY
    assert give_up(conn, later) == (3, 0)
    assert give_up(conn, later, forget_older_than_ms=NOW) == (0, 0)
    assert give_up(conn, later, forget_older_than_ms=NOW + 1) == (2, 0)
    assert column(conn, "SELECT id FROM responses ORDER BY id") == [failed, newest]


def test_the_walk_continues_where_it_stopped_and_ends_with_the_old_rows(conn):
    old = [answer(conn, channel="api", now_ms=NOW) for _ in range(3)]
    for _ in range(3):
        answer(conn, channel="api", now_ms=NOW + 2 * DAY)
    later = NOW + 2 * DAY
    assert give_up(conn, later, limit=2) == (2, old[1])
    assert give_up(conn, later, limit=2, after_id=old[1]) == (1, 0)
    assert column(conn, "SELECT count(*) FROM responses WHERE status = 'pending'") == [3]


def test_a_retried_expired_response_has_another_day(conn):
    id_ = answer(conn, channel="api", now_ms=NOW)
    later = NOW + 2 * DAY
    give_up(conn, later)
    with transaction(conn):
        dead_responses.retry(conn, id_, now_ms=later)
    assert give_up(conn, later + 1) == (0, 0)
    assert row(conn, "responses", id_)["status"] == "pending"
