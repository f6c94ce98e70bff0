"""The lists of messages and answers: which rows, in which order, and why each stands there."""

import pytest

from shared.db.engine.connection import transaction
from shared.db.views import work
from shared.db.views.why import Of
from shared.db.views.work import Filter
from tests.support import NOW, answer, make_agent, plan, put, take


def end(conn, row, status):
    with transaction(conn):
        conn.execute(
            "UPDATE messages SET status = :status, last_error = 'it fell' WHERE id = :id", {"status": status, "id": row}
        )


def texts(conn, state, wanted=None, limit=50):
    return [each["text"] for each in work.messages(conn, state, wanted or Filter(), limit=limit, now_ms=NOW)]


@pytest.fixture
def some(conn):
    """A message in each state, and two that wait."""
    make_agent(conn, "coder")
    for number, (text, status) in enumerate([("done", "completed"), ("gone", "dead"), ("stopped", "cancelled")]):
        end(conn, put(conn, text, chat=str(number)), status)
    put(conn, "runs", chat="8")
    take(conn, chat="8")
    put(conn, "first", chat="9", sender_id="6")
    put(conn, "second", chat="9", agent="coder", now_ms=NOW + 10)
    put(conn, "context", chat="9", trigger=False)
    return conn


@pytest.mark.parametrize(
    ("state", "found"),
    [("waiting", ["second", "first"]), ("running", ["runs"]), ("dead", ["gone"]), ("done", ["stopped", "done"])],
)
def test_each_state_has_its_messages_newest_first(some, state, found):
    assert texts(some, state) == found


@pytest.mark.parametrize(
    "wanted",
    [
        Filter(agent="coder"),
        Filter(of=Of(sender_id="5")),
        Filter(since_ms=NOW + 10),
        Filter(of=Of(channel="telegram", platform_id="9"), agent="coder"),
    ],
    ids=["agent", "person", "time", "chat"],
)
def test_a_filter_leaves_the_others_out(some, wanted):
    assert texts(some, "waiting", wanted) == ["second"]


def test_until_is_not_included_and_before_is_the_next_page(some):
    assert texts(some, "waiting", Filter(until_ms=NOW + 10)) == ["first"]
    (newest, _) = work.messages(some, "waiting", Filter(), limit=2, now_ms=NOW)
    assert texts(some, "waiting", Filter(before=newest["row"])) == ["first"]


def test_a_reason_is_looked_for_behind_rows_with_another(conn):
    put(conn, "planned", process_after=NOW + 1)
    for number in range(3):
        put(conn, f"due {number}", chat=str(number))

    assert texts(conn, "waiting", Filter(reason="planned"), limit=1) == ["planned"]


def test_each_row_says_why_it_stands_there(some):
    (dead,) = work.messages(some, "dead", Filter(), limit=1, now_ms=NOW)
    assert (dead["state"], dead["reason"]) == (
        "dead",
        "It is dead after 0 attempts: it fell. Retry it when the cause is gone, or discard it.",
    )
    (done,) = work.messages(some, "done", Filter(reason="cancelled"), limit=1, now_ms=NOW)
    assert done["reason"] == "It was cancelled: it fell."


def test_answers_say_what_they_wait_for(conn):
    first, second = answer(conn, "one"), answer(conn, "two")

    found = work.answers(conn, "waiting", Filter(), limit=5, now_ms=NOW)

    assert [(each["id"], each["state"]) for each in found] == [(second, "answer_behind"), (first, "answer_due")]
    assert found[0]["reason"] == f"Its answer, response {second}, comes after response {first} of the same chat."


def test_an_answer_that_could_not_be_sent_is_in_the_other_list(conn):
    row = answer(conn)
    with transaction(conn):
        conn.execute("UPDATE responses SET status = 'dead', failure = 'error', last_error = 'no rights'")

    assert work.answers(conn, "waiting", Filter(), limit=5, now_ms=NOW) == []
    (found,) = work.answers(conn, "dead", Filter(), limit=5, now_ms=NOW)
    assert (found["id"], found["reason"]) == (
        row,
        f"Its answer, response {row}, could not be sent: no rights. Send it again, or discard it.",
    )


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(agent="coder"), ["second"]),
        (Filter(of=Of(channel="telegram", platform_id="200")), ["second"]),
        (Filter(of=Of(sender_id="6")), ["second"]),
        (Filter(since_ms=NOW + 10), ["second"]),
        (Filter(until_ms=NOW + 10), ["first"]),
        (Filter(reason="answer_due"), ["second", "first"]),
        (Filter(reason="answer_retry"), []),
    ],
    ids=["agent", "chat", "person", "since", "until", "reason", "other reason"],
)
def test_answers_are_filtered_as_messages_are(conn, wanted, found):
    answer(conn, "first")
    row = answer(conn, "second", chat="200")
    conn.execute("UPDATE responses SET agent = 'coder', sender_id = '6', created_at = ? WHERE id = ?", (NOW + 10, row))
    assert [each["text"] for each in work.answers(conn, "waiting", wanted, limit=5, now_ms=NOW)] == found


def test_what_is_done_is_looked_for_before_the_wanted_time(conn, monkeypatch):
    """Also behind more rows than are looked at, where ids are missing, and where rows were made at one instant."""
    for number in range(9):
        end(conn, put(conn, str(number), now_ms=NOW + number // 2 * 10), "completed")
    conn.execute("DELETE FROM messages WHERE message = '4'")
    assert texts(conn, "done", Filter(until_ms=NOW + 20)) == ["3", "2", "1", "0"]
    assert texts(conn, "done", Filter(since_ms=NOW + 10, until_ms=NOW + 30)) == ["5", "3", "2"]
    assert texts(conn, "done", Filter(until_ms=NOW)) == []
    tops = [work._top(conn, Filter(until_ms=NOW + at)) for at in (0, 1, 20, 21, 1000)]
    assert tops == [1, 3, 5, 7, 10]
    assert work._top(conn, Filter(before=4)) == 5


def test_the_time_of_a_row_is_read_by_its_id(conn):
    assert all("INTEGER PRIMARY KEY" in step for step in plan(conn, work.MADE_FROM, row=1))
    names = ("agent", "channel", "platform_id", "sender_id", "since", "until", "before", "limit", "top")
    assert any("PRIMARY KEY (rowid>?" in step for step in plan(conn, work._IDS["done"], **dict.fromkeys(names)))


def test_one_message_by_its_row(conn):
    row = put(conn, "hello")
    found = work.one(conn, row, now_ms=NOW)
    assert found is not None
    assert (found["text"], found["state"]) == ("hello", "due")
    assert work.one(conn, 99, now_ms=NOW) is None


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (work._IDS["waiting"], "messages_open"),
        (work._IDS["running"], "messages_open"),
        (work._IDS["dead"], "messages_dead"),
        (work._ANSWER_IDS["waiting"], "responses_open"),
        (work._ANSWER_IDS["dead"], "responses_unsent"),
    ],
    ids=["waiting", "running", "dead", "waiting answers", "dead answers"],
)
def test_open_and_dead_messages_and_answers_are_read_by_their_index(conn, sql, index):
    names = ("agent", "channel", "platform_id", "sender_id", "since", "until", "before", "limit")
    assert any(index in step for step in plan(conn, sql, **dict.fromkeys(names)))
