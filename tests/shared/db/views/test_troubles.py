"""What waits for a person and what mends itself, by cause."""

from shared.db.engine.connection import transaction
from shared.db.roster import chats
from shared.db.views import troubles
from tests.support import NOW, answer, make_agent, make_chat, put, take

SOON = NOW + 60_000


def change(conn, sql, **values):
    with transaction(conn):
        conn.execute(sql, values)


def kill(conn, row, failure, error, at_ms=NOW):
    sql = (
        "UPDATE messages SET status = 'dead', failure = :failure, last_error = :error, updated_at = :at WHERE id = :id"
    )
    change(conn, sql, failure=failure, error=error, at=at_ms, id=row)


def retry(conn, row, at_ms=SOON):
    sql = "UPDATE messages SET failure = 'crashed', last_error = 'it fell', process_after = :at WHERE id = :id"
    change(conn, sql, at=at_ms, id=row)


def test_dead_messages_stand_by_agent_and_cause_the_newest_first(conn):
    make_agent(conn, "coder")
    rows = [put(conn, agent=agent) for agent in ("assistant", "assistant", "coder", "assistant")]
    for row, failure in zip(rows, ("crashed", "crashed", "crashed", "network"), strict=True):
        kill(conn, row, failure, f"error of {row}", NOW + row)

    found = troubles.dead_messages(conn)

    assert [(each.agent, each.failure, each.ids, each.error) for each in found] == [
        ("assistant", "network", [rows[3]], f"error of {rows[3]}"),
        ("coder", "crashed", [rows[2]], f"error of {rows[2]}"),
        ("assistant", "crashed", [rows[1], rows[0]], f"error of {rows[1]}"),
    ]
    assert (found[2].number, found[2].first_ms, found[2].last_ms) == (2, NOW + rows[0], NOW + rows[1])


def test_an_answer_that_no_client_fetched_is_no_dead_answer(conn):
    kept, fetched = answer(conn, "one"), answer(conn, "two")
    for row, failure in ((kept, "error"), (fetched, "not_fetched")):
        change(conn, "UPDATE responses SET status = 'dead', failure = :f WHERE id = :id", f=failure, id=row)

    assert [each.ids for each in troubles.dead_answers(conn)] == [[kept]]


def test_what_is_tried_again_stands_by_agent_with_what_waits_behind_it(conn):
    retry(conn, put(conn))
    put(conn, "behind it")
    put(conn, "of another conversation", chat="200")

    (found,) = troubles.retrying(conn, NOW)

    assert found == ("assistant", 1, SOON, 1, "it fell")


def test_what_is_due_again_is_tried_no_more_later(conn):
    retry(conn, put(conn), NOW)
    assert troubles.retrying(conn, NOW) == []


def test_an_agent_that_is_paused_waits_for_more_than_time(conn):
    retry(conn, put(conn))
    change(
        conn,
        "INSERT INTO agent_pauses (agent, state, code, reason, paused_by, since)"
        " VALUES ('assistant', 'paused', 'auth', 'no login', 'postroom', :now)",
        now=NOW,
    )
    assert troubles.retrying(conn, NOW) == []


def test_a_chat_is_silent_while_answers_wait_for_the_end_of_its_pause(conn):
    chat = make_chat(conn)
    with transaction(conn):
        chats.pause_sending(conn, chat, until_ms=SOON, now_ms=NOW)
    assert troubles.silent_chats(conn, NOW) == []
    answer(conn)
    answer(conn, "another")

    assert troubles.silent_chats(conn, NOW) == [(chat, "telegram", None, SOON, 2)]
    assert troubles.silent_chats(conn, SOON) == []


def test_open_messages_are_counted_by_what_they_wait_for(conn):
    make_agent(conn, "coder")
    put(conn, "due", chat="1", now_ms=NOW + 5)
    put(conn, "planned", chat="2", process_after=SOON, now_ms=NOW - 9)
    retry(conn, put(conn, "retried", chat="3", now_ms=NOW + 6))
    put(conn, "of a paused agent", agent="coder", now_ms=NOW + 7)
    put(conn, "runs", chat="4")
    take(conn, chat="4")

    assert troubles.waiting(conn, {"coder"}, NOW) == (4, 1, 1, 1, 1, 1, NOW + 5, "assistant")
    assert [troubles.waiting_for(conn, agent, NOW) for agent in ("coder", "assistant", "nobody")] == [1, 1, 0]


def test_a_task_waits_since_its_instant_and_not_since_it_was_planned(conn):
    put(conn, "of yesterday", chat="1", process_after=NOW - 1000, now_ms=NOW - 86_400_000)
    assert troubles.waiting(conn, set(), NOW).oldest_ms == NOW - 1000
    put(conn, "asked", chat="2", now_ms=NOW - 9000)
    assert troubles.waiting(conn, set(), NOW).oldest_ms == NOW - 9000


def test_what_is_planned_hides_nothing_that_waits_behind_it_in_its_session(conn):
    make_agent(conn, "coder")
    put(conn, "planned", chat="1", process_after=SOON, now_ms=NOW - 9000)
    put(conn, "planned too", chat="1", process_after=SOON, now_ms=NOW - 8000)
    assert troubles.waiting(conn, set(), NOW).oldest_ms is None
    put(conn, "asked", chat="1", now_ms=NOW - 5000)
    put(conn, "asked later", agent="coder", now_ms=NOW - 4000)
    found = troubles.waiting(conn, set(), NOW)
    assert (found.oldest_ms, found.oldest_agent, found.planned, found.due) == (NOW - 5000, "assistant", 2, 2)


def test_where_nothing_waits_nothing_is_the_oldest(conn):
    assert troubles.waiting(conn, set(), NOW) == (0, 0, 0, 0, 0, 0, None, None)
