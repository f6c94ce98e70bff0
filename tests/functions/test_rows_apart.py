"""One impossible row: it is set aside with the reason, its session or chat waits, and all others go on."""

import asyncio

import pytest

from functions.deliver import Deliver
from functions.dispatch import Dispatch
from functions.recurrence import Recurrence
from functions.sweep import Sweep
from shared.conversation.inbound.events import handle
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import rows, transaction
from shared.queue import series, turns
from tests.fake_client import FakeClient
from tests.functions.deliver.sending import Platform
from tests.functions.sweep.kit import run as once
from tests.shared.conversation.routing.router.kit import ASK, become, event, make_chat, wire
from tests.support import NOW, answer, column, put, row, take


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """The second attempt comes long after the test."""
    monkeypatch.setenv("POSTROOM_RETRY_BASE_MS", "60000")
    monkeypatch.setenv("POSTROOM_RETRY_CAP_MS", "60000")


@pytest.fixture
def quick(patient, monkeypatch):
    """Five attempts within milliseconds."""
    monkeypatch.setenv("POSTROOM_RETRY_BASE_MS", "1")
    monkeypatch.setenv("POSTROOM_RETRY_CAP_MS", "1")


def spoil(conn, table, row_id, **values):
    """As a bug or a hand may: without the CHECKs of the table."""
    rows(conn, "PRAGMA ignore_check_constraints = ON")
    with transaction(conn):
        for name, value in values.items():
            rows(conn, f"UPDATE {table} SET {name} = :value WHERE id = :id", {"value": value, "id": row_id})
    rows(conn, "PRAGMA ignore_check_constraints = OFF")


def work(service, *, until=lambda: False, most=40):
    """Steps of the service, until *until*."""

    async def go():
        for _ in range(most):
            if until():
                break
            await service.claim_and_start()
            while service.worker.running:  # noqa: ASYNC110 - the worker tells only its own loop
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.003)
        await service.close()

    asyncio.run(go())


def dispatched(conn, **options):
    work(Dispatch(Settings.load()), **options)


def delivered(platform, **options):
    work(Deliver(Settings.load(), FakeClient(platform)), **options)


NO_OBJECT = {
    "an array": "[]",
    "a number": "5",
    "a text": '"no"',
    "null": "null",
    "no JSON": "{",
    "a number that no program reads": '{"a": ' + "1" * 5000 + "}",
}


@pytest.mark.parametrize("content", NO_OBJECT.values(), ids=NO_OBJECT)
def test_a_message_that_cannot_be_read_stops_nobody_else(conn, content):
    bad = put(conn, "bad", chat="1")
    put(conn, "behind it", chat="1")
    put(conn, "elsewhere", chat="2")
    spoil(conn, "messages", bad, content=content)

    dispatched(conn, most=2)  # the agent has one turn at a time: the second goes to the other session

    found = row(conn, "messages", bad)
    assert (found["status"], found["retry_count"], found["failure"]) == ("pending", 1, "unreadable")
    assert found["last_error"].startswith("the row can't be used: column content of the message: it should be a JSON")
    assert found["last_error"].endswith("correct the row, then retry the message")
    assert column(conn, "SELECT message FROM messages WHERE status = 'completed'") == ["elsewhere"]


@pytest.mark.usefixtures("quick")
def test_after_its_attempts_it_is_dead_its_sender_is_told_and_its_session_goes_on(conn):
    bad = put(conn, "bad")
    put(conn, "behind it")
    spoil(conn, "messages", bad, content="[]")
    dispatched(conn, until=lambda: column(conn, "SELECT 1 FROM messages WHERE status = 'completed'"))
    assert rows(conn, "SELECT message, status, retry_count FROM messages") == [
        ("bad", "dead", 5),
        ("behind it", "completed", 0),
    ]
    assert column(conn, "SELECT message FROM responses ORDER BY id") == [turns.APOLOGY, "You said: behind it"]
    assert column(conn, "SELECT type FROM events WHERE type LIKE 'message_%' AND type <> 'message_received'") == [
        *["message_retry"] * 4,
        "message_dead",
    ]
    ended = column(conn, "SELECT data ->> 'failure' FROM events WHERE type IN ('message_retry', 'message_dead')")
    assert ended == ["unreadable"] * 5


@pytest.mark.usefixtures("quick")
def test_what_stands_before_it_is_answered_and_what_was_corrected_too(conn):
    put(conn, "before")
    bad = put(conn, "bad")
    spoil(conn, "messages", bad, content="[]")
    dispatched(conn, until=lambda: column(conn, "SELECT 1 FROM messages WHERE status = 'completed'"))
    with transaction(conn):
        rows(conn, "UPDATE messages SET content = '{}' WHERE id = :id", {"id": bad})
    dispatched(conn, until=lambda: not column(conn, "SELECT 1 FROM messages WHERE status <> 'completed'"))
    assert column(conn, "SELECT message FROM responses ORDER BY id") == ["You said: before", "You said: bad"]


def test_context_that_cannot_be_read_is_dead_at_once_and_the_turn_goes_on(conn):
    bad = put(conn, "bad", trigger=False)
    put(conn, "question")
    spoil(conn, "messages", bad, content="[]")
    dispatched(conn, most=3)
    assert rows(conn, "SELECT message, status FROM messages") == [("bad", "dead"), ("question", "completed")]
    assert column(conn, "SELECT message FROM responses") == ["You said: question"]


def test_a_turn_of_an_earlier_process_is_rescued_although_its_row_cannot_be_read(conn):
    bad = put(conn, "bad", chat="1")
    put(conn, "good", chat="2")
    take(conn, chat="1")
    take(conn, chat="2", token="turn_b")
    spoil(conn, "messages", bad, content="[]")
    dispatch = Dispatch(Settings.load())

    async def go():
        await dispatch.repair()
        await dispatch.close()

    asyncio.run(go())
    assert rows(conn, "SELECT status, retry_count FROM messages") == [("pending", 0), ("pending", 0)]


def test_the_sweep_rescues_the_turns_beside_it(conn):
    bad = put(conn, "bad", chat="1")
    put(conn, "good", chat="2")
    take(conn, chat="1", now_ms=1)
    take(conn, chat="2", token="turn_b", now_ms=1)
    spoil(conn, "messages", bad, content="5", files="{")
    swept = once(Sweep, now_ms=clock.now_ms())
    assert (swept.failed, swept.counts["rescued_turns"]) == ([], 2)


@pytest.mark.parametrize("content", NO_OBJECT.values(), ids=NO_OBJECT)
def test_a_response_that_cannot_be_read_stops_nobody_else(conn, content):
    bad = answer(conn, "bad", chat="1")
    answer(conn, "behind it", chat="1")
    answer(conn, "elsewhere", chat="2")
    spoil(conn, "responses", bad, content=content)
    platform = Platform()

    delivered(platform, most=1)

    assert platform.texts == ["elsewhere"]
    found = row(conn, "responses", bad)
    assert (found["status"], found["retry_count"], found["failure"]) == ("pending", 1, "unreadable")
    assert "it should be a JSON" in found["last_error"]
    assert found["part_started"] is None


SHAPES = {
    "parts that are no list": {"parts": "5"},
    "a click that is a text": {"content": '{"edits": null, "click": "x"}'},
    "buttons that are numbers": {"content": '{"buttons": [5]}'},
}


@pytest.mark.parametrize("values", SHAPES.values(), ids=SHAPES)
@pytest.mark.usefixtures("quick")
def test_after_its_attempts_the_response_is_dead_and_its_chat_goes_on(conn, values):
    bad = answer(conn, "bad", chat="1")
    answer(conn, "behind it", chat="1")
    spoil(conn, "responses", bad, **values)
    platform = Platform()
    delivered(platform, until=lambda: platform.texts)
    assert platform.texts == ["behind it"]
    assert row(conn, "responses", bad)["status"] == "dead"


def test_a_series_that_cannot_go_on_stops_no_settlement(conn):
    """Every turn's end hands on what recurs, of whatever session; this one can't be copied."""
    bad = put(conn, "bad", chat="1", recurrence="0 9 * * *", timezone="UTC", series_id="s_1", scheduled_at=NOW)
    put(conn, "hello", chat="2")
    spoil(conn, "messages", bad, status="completed", content="[]")
    dispatched(conn, most=1)
    assert column(conn, "SELECT status FROM messages WHERE message = 'hello'") == ["completed"]
    assert column(conn, "SELECT data ->> '$.reason' FROM events WHERE type = 'series_ended'") == [
        "ConstraintError (the log says where)"
    ]


def test_recurrence_hands_on_the_others(conn):
    bad = put(conn, "bad", chat="1", recurrence="0 9 * * *", timezone="UTC", series_id="s_1", scheduled_at=NOW)
    good = put(conn, "good", chat="2", recurrence="0 9 * * *", timezone="UTC", series_id="s_2", scheduled_at=NOW)
    spoil(conn, "messages", bad, status="completed", content="[]")
    spoil(conn, "messages", good, status="completed")
    advanced = once(Recurrence, now_ms=NOW)
    assert advanced.failed == []
    assert [each.series_id for each in series.every(conn)] == ["s_2"]


def test_the_apology_for_a_row_that_leads_nowhere_stops_nothing(conn):
    """It is dead all the same."""
    bad = put(conn, "bad")
    claim = take(conn)
    spoil(conn, "messages", bad, channel="internal", from_agent="assistant")
    broken = claim.asked[0]._replace(channel="internal", content={"is_answer": True, "behalf": {"nonsense": 1}})
    with transaction(conn):
        dead = turns.fail(
            conn,
            claim.__class__(claim.token, claim.session_id, claim.agent, (broken,)),
            turns.Failure("no use", retryable=False),
            turns.RetryPolicy.of(Settings.load()),
            now_ms=NOW,
        )
    assert [each.id for each in dead] == [bad]
    assert column(conn, "SELECT status FROM messages") == ["dead"]


def test_an_approval_that_cannot_be_told_expires_and_so_do_the_others(conn):
    wire(conn, make_chat(conn, policy="request_approval"))
    become(conn, "owner", "9")
    for number in ("1", "2"):
        with transaction(conn):
            handle(conn, "telegram", event(event_key=number, sender_id=number), ASK, now_ms=NOW)
    bad = column(conn, "SELECT min(id) FROM approvals")[0]
    spoil(conn, "approvals", bad, payload="[]", options="5")
    with transaction(conn):
        rows(conn, "UPDATE held SET event = '5' WHERE approval_id = :id", {"id": bad})
    swept = once(Sweep, now_ms=NOW + 30 * 24 * 60 * 60 * 1000)
    assert swept.failed == []
    assert column(conn, "SELECT status FROM approvals") == ["expired", "expired"]
    assert column(conn, "SELECT event_key FROM dropped ORDER BY id") == ["1", "2"]
    assert column(conn, "SELECT count(*) FROM held") == [0]
