"""A fresh start: what is closed, what goes on, what is given once more, and what becomes of everything that waits."""

import json

import pytest

from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, messages, ready_sessions, replays, sessions
from shared.db.queue.messages import NewMessage
from shared.queue import replies, session_reset, turns
from shared.queue.teamwork import mailbox
from shared.queue.turns import TurnReply
from tests.forks import outcomes
from tests.support import NOW, column, draw, make_agent, make_chat, make_session, plan, put, row, take, texts

HOUR = 3_600_000
DAILY = {"recurrence": "0 9 * * *", "timezone": "UTC", "series_id": "task_daily000", "scheduled_at": NOW + HOUR}


@pytest.fixture
def session(conn):
    """The session in which ``put`` writes."""
    return make_session(conn)[1]


def reset(conn, session, now_ms=NOW + 1):
    """In a transaction of its own."""
    with transaction(conn):
        return session_reset.reset(conn, session, now_ms=now_ms)


def replay(conn, session, now_ms=NOW + 1):
    """All that was said in the session, once more."""
    said, _ = replays.find_messages(conn, session, before=2**62, look_at=2000)
    with transaction(conn):
        return session_reset.replay(conn, session, said, now_ms=now_ms)


def settle(conn, claim, *texts_, continuation="1", now_ms=NOW):
    """Each message that asked is answered with the text in its place."""
    with transaction(conn):
        said = [TurnReply(text, asked) for text, asked in zip(texts_, claim.asked, strict=True)]
        turns.settle(conn, claim, said, continuation, now_ms=now_ms)


def of(conn, session):
    """What stands in the session: text and status, in order."""
    return conn.execute("SELECT message, status FROM messages WHERE session_id = ? ORDER BY id", (session,)).fetchall()


def newest(conn):
    """Of the events: the last one's type, data and session."""
    event = row(conn, "events")
    return event["type"], json.loads(event["data"]), event["session_id"]


# -- reset


def test_a_reset_closes_the_session_and_a_fresh_one_replaces_it(conn, session):
    put(conn, "my name is Ana")
    settle(conn, take(conn), "Hello Ana", continuation="41")

    new = reset(conn, session)

    fresh, old = sessions.known(conn, new), sessions.known(conn, session)
    assert (fresh.status, fresh.continuation, fresh.replays) == ("active", None, None)
    assert (fresh.agent, fresh.chat_id, fresh.thread_id) == (old.agent, old.chat_id, old.thread_id)
    assert (old.status, old.closed_at, old.continuation) == ("closed", NOW + 1, "41")
    assert of(conn, session) == [("my name is Ana", "completed")]
    assert newest(conn) == ("session_reset", {"session": fresh.session_id, "before": old.session_id}, new)


def test_the_next_message_belongs_to_the_fresh_session(conn, session):
    new = reset(conn, session)

    put(conn, "who am I?")

    assert of(conn, new) == [("who am I?", "pending")]


def test_a_session_is_reset_once(conn, session):
    reset(conn, session)

    with pytest.raises(WrongState, match="closed already"):
        reset(conn, session)
    with pytest.raises(NotFound, match="no session 99"):
        reset(conn, 99)
    assert column(conn, "SELECT count(*) FROM sessions") == [2]


def test_clear_resets_the_active_session_of_the_key(conn, session):
    chat = make_chat(conn)
    with transaction(conn):
        assert session_reset.clear(conn, "assistant", chat, "7", now_ms=NOW) is None
        new = session_reset.clear(conn, "assistant", chat, None, now_ms=NOW)
        again = session_reset.clear(conn, "assistant", chat, None, now_ms=NOW)

    assert session < new < again
    assert column(conn, "SELECT id FROM sessions WHERE status = 'active'") == [again]


def test_a_running_turn_ends_in_its_closed_session(conn, session):
    """Its answer goes out, and how it goes on is remembered there and not in the fresh one."""
    put(conn, "a long question")
    claim = take(conn)
    new = reset(conn, session)

    settle(conn, claim, "a long answer", continuation="9", now_ms=NOW + 2)

    assert row(conn, "responses")["message"] == "a long answer"
    assert sessions.known(conn, session).continuation == "9"
    assert sessions.known(conn, new).continuation is None


def test_a_pending_message_of_a_closed_session_still_runs_there(conn, session):
    put(conn, "context of it", trigger=False)
    put(conn, "waits")
    reset(conn, session)

    with transaction(conn):
        (ready,) = ready_sessions.find(conn, now_ms=NOW)
        claim = claims.claim(conn, ready.agent, ready.session_id, token="turn_a", now_ms=NOW, lease_ms=1000, limit=10)

    assert ready.session_id == session
    assert texts(claim) == ["context of it", "waits"]


def test_context_without_a_later_turn_is_completed(conn, session):
    """Else it would wait for ever in the closed session: nothing that asks for a turn comes there any more."""
    put(conn, "before the question", trigger=False)
    put(conn, "question")
    put(conn, "after the question", trigger=False)

    reset(conn, session)

    assert of(conn, session) == [
        ("before the question", "pending"),
        ("question", "pending"),
        ("after the question", "completed"),
    ]


def test_accumulated_context_does_not_reach_the_fresh_session(conn, session):
    put(conn, "old gossip", trigger=False)
    new = reset(conn, session)

    put(conn, "question")

    assert texts(take(conn)) == ["question"]
    assert of(conn, session) == [("old gossip", "completed")]
    assert of(conn, new) == [("question", "processing")]


def forget(conn, limit=3):
    """One batch of the sweep's."""
    with transaction(conn):
        return replays.forget(conn, limit=limit, now_ms=NOW)


def test_more_context_than_one_transaction_takes_is_forgotten_later(conn, session):
    for number in range(5):
        put(conn, str(number), trigger=False)
    question = put(conn, "question")
    with transaction(conn):
        sessions.close(conn, session, now_ms=NOW)
    assert forget(conn) == 0  # the question will ask for it
    with transaction(conn):
        messages.cancel(conn, question, reason="test", now_ms=NOW)

    assert [forget(conn) for _ in range(3)] == [3, 2, 0]
    assert column(conn, "SELECT DISTINCT status FROM messages WHERE trigger = 0") == ["completed"]


def test_one_batch_forgets_context_of_several_sessions(conn):
    for chat in ("100", "200", "300"):
        put(conn, "context", chat=chat, trigger=False)
        put(conn, "more", chat=chat, trigger=False)
    with transaction(conn):
        for each in sessions.page(conn, limit=10):
            sessions.close(conn, each.id, now_ms=NOW)

    assert [forget(conn, limit=4) for _ in range(3)] == [4, 2, 0]


def test_context_of_an_active_session_is_never_forgotten(conn, session):
    put(conn, "context", trigger=False)

    assert forget(conn) == 0


def _reset_at_once(connection):
    try:
        with transaction(connection):
            session_reset.reset(connection, 1, now_ms=NOW)
    except WrongState:
        return "closed already"
    return "reset"


def test_of_many_resets_at_once_one_counts(conn, db, session):
    """Two admins who clear at once don't close each other's fresh session."""
    assert session == 1

    assert sorted(outcomes(db, _reset_at_once, [()] * 6)) == ["closed already"] * 5 + ["reset"]
    assert column(conn, "SELECT status FROM sessions ORDER BY id") == ["closed", "active"]


def test_planned_messages_move_to_the_fresh_session(conn, session):
    put(conn, "every day", process_after=NOW + HOUR, **DAILY)
    put(conn, "paused", status="paused", process_after=NOW + HOUR, series_id="task_paused00")
    put(conn, "waits for another try", process_after=NOW + HOUR)
    put(conn, "due", process_after=NOW, series_id="task_due00000")

    new = reset(conn, session)

    assert of(conn, new) == [("every day", "pending"), ("paused", "paused")]
    assert of(conn, session) == [("waits for another try", "pending"), ("due", "pending")]


def test_a_private_session_hands_its_series_to_its_own_successor(conn, session):
    chat = sessions.known(conn, session).chat_id
    with transaction(conn):
        private = sessions.ensure(conn, "assistant", chat, None, private_to="5", now_ms=NOW)
    put(conn, "every day", process_after=NOW, **(DAILY | {"scheduled_at": NOW}))
    rows(conn, "UPDATE messages SET session_id = ?", (private,))
    with transaction(conn):
        claim = claims.claim(conn, "assistant", private, token="t", now_ms=NOW, lease_ms=1000, limit=9)
    new = reset(conn, private)
    settle(conn, claim, "done", now_ms=NOW + 2)
    assert sessions.known(conn, new).private_to == "5"
    assert of(conn, new) == [("every day", "pending")]
    assert of(conn, session) == []


def test_a_running_occurrence_hands_its_series_to_the_fresh_session(conn, session):
    put(conn, "every day", process_after=NOW, **(DAILY | {"scheduled_at": NOW}))
    claim = take(conn)
    new = reset(conn, session)

    settle(conn, claim, "done", now_ms=NOW + 2)

    assert of(conn, session) == [("every day", "completed")]
    assert of(conn, new) == [("every day", "pending")]


def test_the_answer_of_another_agent_reaches_the_fresh_session(conn, session):
    """Alice asked Bob for Ana, and was reset while he thought: his answer is not lost among Alice's own mail."""
    make_agent(conn, "bob")
    cause = put(conn, "ask bob")
    with transaction(conn):
        asked = mailbox.send(conn, "assistant", "bob", "how much?", because=cause, now_ms=NOW)
    new = reset(conn, session)

    with transaction(conn):
        mailbox.reply(conn, asked, "42", now_ms=NOW + 2)

    assert of(conn, new) == [("42", "pending")]


# -- replay


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
        messages.enqueue_many(conn, (new._replace(message=str(each)) for each in range(1003)), now_ms=NOW)

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


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        (replays.MOVE, {"agent": "a", "old": 1, "new": 2, "now": NOW}),
        (replays.MOVE_PAUSED, {"old": 1, "new": 2, "now": NOW}),
        (replays.LEAVE, {"agent": "a", "session": 1, "now": NOW, "limit": 5}),
        (replays.LEFT, {"limit": 5}),
        (replays.SHOWN, {"rows": "[1]"}),
        (replays.ANSWERS, {"rows": "[1]"}),
    ],
)
def test_no_statement_reads_a_whole_table(conn, sql, parameters):
    """With ten million finished messages a reset holds the write lock no longer than with none."""
    steps = plan(conn, sql, **parameters)

    bad = [step for step in steps if step.startswith("SCAN") and "waiting" not in step and "json_each" not in step]
    assert not [step for step in bad if "INDEX messages_resting" not in step], steps
