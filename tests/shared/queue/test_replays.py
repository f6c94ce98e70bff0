"""A replay: the messages of a session are given once more to a fresh one."""

import json

import pytest

from shared.core.errors import NotFound
from shared.db.engine.connection import transaction
from shared.db.queue import messages, replays, sessions
from shared.db.queue.messages import NewMessage
from shared.queue import replies, session_reset
from tests.shared.queue.resetting import DAILY, HOUR, newest, of, reset, settle
from tests.support import NOW, column, draw, enqueue_all, put, row, take, texts


def replay(conn, session, now_ms=NOW + 1):
    """All that was said in the session, once more."""
    said, _ = replays.find_messages(conn, session, before=2**62, look_at=2000)
    with transaction(conn):
        return session_reset.replay(conn, session, said, now_ms=now_ms)


def test_a_replay_repeats_all_messages_in_a_fresh_session(conn, session):
    put(conn, "context", trigger=False)
    first = put(conn, "one", event_key="1", platform_message_id="77", content={"is_group": True})
    put(conn, "two", event_key="2")
    settle(conn, take(conn), "answer one", "answer two")

    new, given = replay(conn, session)

    assert given == 3
    assert of(conn, session) == [("context", "completed"), ("one", "completed"), ("two", "completed")]
    assert of(conn, new) == [("context", "pending"), ("one", "pending"), ("two", "pending")]
    assert sessions.known(conn, new).replays == session
    assert sessions.known(conn, session).status == "closed"
    kept = ("chat_id", "platform_id", "platform_message_id", "sender", "sender_id", "channel", "kind")
    before = row(conn, "messages", first)
    (again,) = column(conn, "SELECT id FROM messages WHERE session_id = :new AND message = 'one'", new=new)
    after = row(conn, "messages", again)
    assert [after[name] for name in kept] == [before[name] for name in kept]
    assert after["event_key"] is None
    assert json.loads(after["content"]) == {"is_group": True, "replay_of": before["message_id"]}
    assert newest(conn)[0] == "session_replayed"
    assert newest(conn)[1]["messages"] == 3
    claim = take(conn, now_ms=NOW + 2)
    assert texts(claim) == ["context", "one", "two"]


def test_a_replay_of_a_closed_session_replaces_the_active_one(conn, session):
    put(conn, "reviewed badly")
    settle(conn, take(conn), "looks good")
    second = reset(conn, session)
    put(conn, "waits in the second")

    third, given = replay(conn, session)

    assert given == 1
    assert column(conn, "SELECT id FROM sessions WHERE status = 'active'") == [third]
    assert sessions.known(conn, second).status == "closed"
    assert of(conn, second) == [("waits in the second", "pending")]
    assert of(conn, third) == [("reviewed badly", "pending")]


def test_a_message_that_never_ran_is_not_replayed(conn, session):
    cancelled = put(conn, "cancelled")
    put(conn, "paused", status="paused")
    put(conn, "planned", process_after=NOW + HOUR, **DAILY)
    put(conn, "elsewhere", chat="200")
    put(conn, "said")
    with transaction(conn):
        messages.cancel(conn, cancelled, reason="test", now_ms=NOW)

    new, given = replay(conn, session)

    assert given == 1
    assert of(conn, new) == [("planned", "pending"), ("said", "pending")]  # what is planned moves


def test_a_due_planned_message_is_not_replayed(conn, session):
    """It runs where it waits; asked again as well, a task would be done twice."""
    put(conn, "due", process_after=NOW, series_id="task_due00000")
    said = put(conn, "said")

    assert replays.find_messages(conn, session, before=2**62, look_at=10) == ([said], 0)


def test_a_replayed_message_draws_another_id_where_a_message_has_it(conn, session, monkeypatch):
    put(conn, "one")
    put(conn, "elsewhere", chat="200", given_id="telegram_aaaaaaaa")
    draw(monkeypatch, "ssssssss", "aaaaaaaa", "bbbbbbbb")  # the first is the session's

    replay(conn, session)

    assert column(conn, "SELECT message_id FROM messages ORDER BY id")[1:] == ["telegram_aaaaaaaa", "telegram_bbbbbbbb"]


def test_a_replayed_task_makes_no_second_series(conn, session):
    put(conn, "every day", process_after=NOW, **(DAILY | {"scheduled_at": NOW}))
    settle(conn, take(conn), "done")

    new, _ = replay(conn, session)

    (again,) = column(conn, "SELECT max(id) FROM messages WHERE session_id = :new", new=new)
    assert [row(conn, "messages", again)[name] for name in ("series_id", "recurrence")] == [None, None]


def test_messages_of_another_session_are_never_replayed(conn, session):
    stranger = put(conn, "elsewhere", chat="200")

    with transaction(conn):
        _, given = session_reset.replay(conn, session, [stranger, 999], now_ms=NOW)

    assert given == 0


def test_a_replay_has_a_bound(conn, session):
    """The oldest ones are left out, for the newest matter more."""
    new = NewMessage(channel="telegram", agent="assistant", session_id=session)
    with transaction(conn):
        enqueue_all(conn, (new._replace(message=str(each)) for each in range(1003)), now_ms=NOW)

    fresh, given = replay(conn, session)

    assert given == session_reset.MOST_REPLAYED == 1000
    assert [text for text, _ in of(conn, fresh)][:2] == ["3", "4"]


def test_a_replay_needs_an_existing_session(conn):
    with pytest.raises(NotFound, match="no session 99"), transaction(conn):
        session_reset.replay(conn, 99, [], now_ms=NOW)


def test_the_answer_to_a_replayed_command_does_not_overwrite_the_first_one(conn, session):
    """A platform's token for answering at once would edit the answer that stands there for comparison."""
    context = {"sealed_token": "x", "bot_is_there": True}
    put(conn, "/ask", content={"context": context, "own_answer": True})
    settle(conn, take(conn), "first")
    assert json.loads(row(conn, "responses")["content"])["asked_at"] == NOW
    replay(conn, session)

    claim = take(conn, now_ms=NOW + 2)
    (asked,) = claim.asked
    new = replies.response(asked, "second", agent="assistant", session_id=claim.session_id)

    assert json.loads(new.content) == {"context": context, "asked_at": 0}


def test_the_messages_to_replay_are_found_step_by_step(conn, session):
    mine = [put(conn, str(number), chat=("100", "200")[number % 2]) for number in range(6)]

    found, before = replays.find_messages(conn, session, before=2**62, look_at=4)
    assert (found, before) == ([mine[4], mine[2]], mine[2])
    found, before = replays.find_messages(conn, session, before=before, look_at=4)
    assert (found, before) == ([mine[0]], 0)


def test_a_story_has_the_messages_and_their_answers(conn, session):
    put(conn, "one")
    settle(conn, take(conn), "answer")
    new, _ = replay(conn, session)
    said, _ = replays.find_messages(conn, session, before=2**62, look_at=10)
    again, _ = replays.find_messages(conn, new, before=2**62, look_at=10)

    ((first,), (second,)) = replays.story(conn, said), replays.story(conn, again)

    assert (first["message"], first["status"], first["answers"], first["replayOf"]) == (
        "one",
        "completed",
        ["answer"],
        None,
    )
    assert (second["message"], second["status"], second["answers"]) == ("one", "pending", [])
    assert second["replayOf"] == first["messageId"]
