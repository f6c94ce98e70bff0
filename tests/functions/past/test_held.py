"""On a copy of the past no function changes, runs or sends anything, however often it is started."""

import asyncio
import inspect

import apsw
import pytest

from functions import api, ingest, recurrence, sweep
from functions.deliver import Deliver
from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine import past, restore_proofs
from shared.db.engine.connection import rows, transaction
from shared.db.engine.past import Past
from shared.db.engine.restore_proofs import RestoreProof
from shared.db.platforms import channel_pauses, channel_watches
from shared.db.platforms.channel_watches import ChannelWatch
from shared.db.queue import responses
from shared.db.roster import agent_pauses
from shared.rest import endpoints
from shared.runtime.http_client import RequestNotSent
from tests.serving import environment, serving
from tests.support import LEASE, NOW, TICK, answer, dump, put, row, take

__all__ = ["environment", "serving"]

DAY = 86_400_000


def mark(conn: apsw.Connection) -> Past:
    made = Past(
        "s3://b/p", "then", "0000000000000011", "2026-11-23T01:00:36Z", newest_session=past.newest_session(conn)
    )
    with transaction(conn):
        past.mark(conn, made)
    return made


@pytest.fixture
def full(conn):
    """Something to do for every function: old and due, waiting, running and half sent."""
    put(conn, "answered", chat="1")
    done = answer(conn)
    with transaction(conn):
        responses.claim(conn, done, token="send_a", now_ms=NOW - 9 * DAY, lease_ms=LEASE)
    put(conn, "runs", chat="2")
    take(conn, chat="2")
    put(conn, "waits", chat="3")
    conn.execute("UPDATE messages SET created_at = created_at - :ms, updated_at = updated_at - :ms", {"ms": 1000 * DAY})
    return conn


class Platform:
    """Answers every request; there must be none."""

    pacing = None

    def __init__(self):
        self.asked = []

    async def request(self, method, url, body, headers, *, limit_bytes=0):
        self.asked.append(url)
        raise AssertionError(url)

    async def close(self):
        pass


def start(make):
    """A process's life: what it does first, and two steps."""

    async def go():
        platform = Platform()
        service = make(Settings.load(), platform)
        await service.look_back()
        dues = [await service.step(), await service.step()]
        running = service.worker.running
        await service.close()
        return dues, running, platform.asked

    return asyncio.run(go())


@pytest.mark.parametrize("make", [Dispatch, Deliver])
def test_a_worker_starts_nothing_and_leaves_what_was_under_way(full, make):
    mark(full)
    before = dump(full)
    for _ in range(2):  # a restart changes nothing either
        assert start(make) == ([None, None], 0, [])
    assert dump(full) == before


@pytest.mark.parametrize("make", [Dispatch, Deliver])
def test_the_same_database_without_the_mark_would_be_worked_on(full, make):
    """So that the test above can fail: there is work for each of them."""
    before = dump(full)
    start(make)
    assert dump(full) != before


@pytest.mark.parametrize("module", [sweep, recurrence])
def test_a_tick_does_nothing(full, serving, module):
    plan_nothing = mark(full)
    before = dump(full)

    async def go():
        async with serving(module) as client:
            return (await client.post("/tick", headers=TICK)).json()

    assert asyncio.run(go()) == {"held": plan_nothing.sentence}
    assert dump(full) == before


def test_a_sweep_would_have_pruned_the_past(full, serving):
    before = dump(full)

    async def go():
        async with serving(sweep) as client:
            await client.post("/tick", headers=TICK)

    asyncio.run(go())
    assert dump(full) != before


def test_a_webhook_is_not_taken(full, serving):
    made = mark(full)
    before = dump(full)

    async def go():
        async with serving(ingest) as client:
            return await client.post("/webhooks/telegram", json={"update_id": 1})

    answered = asyncio.run(go())
    assert (answered.status_code, answered.json()["error"]) == (503, made.sentence)
    assert dump(full) == before


def requests(serving, *asked):
    async def go():
        async with serving(api) as client:
            return [await client.request(method, path, json=body) for method, path, body in asked]

    return asyncio.run(go())


def test_the_api_reads_and_refuses_what_would_change_or_deliver(full, serving):
    mark(full)
    before = dump(full)
    answers = requests(
        serving,
        ("POST", "/api/message", {"message": "hi"}),
        ("POST", "/api/responses", {"channel": "telegram", "message": "hi"}),
        ("GET", "/api/responses/pending?channel=telegram", None),  # a client delivers what it fetches
        ("POST", "/api/sessions/session_1/replay", {}),
        ("DELETE", "/api/agents/assistant/heartbeat", None),
    )
    assert [each.status_code for each in answers] == [409] * 5
    assert all("it sends to nobody" in each.json()["error"] for each in answers)
    read = requests(
        serving, ("GET", "/api/queue/status", None), ("GET", "/api/sessions", None), ("GET", "/api/past", None)
    )
    assert [each.status_code for each in read] == [200] * 3
    assert read[2].json()["past"]["txid"] == "0000000000000011"
    assert dump(full) == before


def test_every_reason_is_of_the_instant_of_the_copy(full, serving):
    at = 1_795_395_636_999  # the end of the second that the mark names
    later = row(full, "messages", put(full, "later", chat="4", process_after=at + 60_000))["message_id"]
    mark(full)
    paths = (f"messages/{later}/why", f"why?ref={later}", "lists/waiting", "queue/pending", "past", "queue/agents")
    one, search, listed, pending, past_, agents = (
        each.json() for each in requests(serving, *(("GET", f"/api/{path}", None) for path in paths))
    )
    of_lists = [each for each in (*listed, *pending) if later in (each.get("id"), each.get("messageId"))]
    for found in (one, *search, *of_lists):
        assert (found["state"], found["until"]) == ("planned", at + 60_000)
    assert len(of_lists) == 2
    assert past_["past"]["at"] == at
    assert [(each["pending"], each["processing"]) for each in agents] == [(2, 1)], "what is planned has not come in yet"


def test_the_overview_names_the_channels_that_could_not_work_then(full, serving):
    with transaction(full):
        channel_pauses.pause(full, "discord", "the token is refused", check_at=NOW, now_ms=NOW)
        why = ("not_registered", "no address is registered")
        channel_watches.put(full, ChannelWatch("telegram", NOW, None, None, None, "deaf", *why, NOW))
    mark(full)
    (found,) = requests(serving, ("GET", "/api/overview", None))
    assert [each["title"] for each in found.json()["needsYou"] if each["key"].startswith("said")] == [
        "discord is paused, and its answers wait: the token is refused",
        "telegram receives nothing: no address is registered",
    ]


def test_the_age_of_a_proof_is_that_at_the_instant_of_the_copy(full, serving):
    at = 1_795_395_636_999  # the end of the second that the mark names
    with transaction(full):
        restore_proofs.add(
            full, RestoreProof(at - DAY, "drill", "equal", "s3://b/p", "0" * 15 + "a", 40, 1000, 5000, 900, 2000)
        )
    mark(full)
    status, replica = requests(serving, ("GET", "/api/status", None), ("GET", "/api/replica", None))
    assert status.json()["replica"]["provenRestore"]["age"] == replica.json()["provenRestore"]["age"] == DAY // 1000


NOT_OF_ROWS = {
    "get_status": "how long the process runs",
    "get_health": "how long the process runs",
    "get_overview": "how long it is kept",
    "get_pending": "a copy gives none away",
    "stream": "what the stream begins with says when it was opened",
}


def test_no_list_asks_the_clock_itself():
    """The service knows the instant of a copy of the past."""
    reads = [each.run for each in endpoints.ENDPOINTS if each.method == "GET"]
    assert {each.__name__ for each in reads if "clock.now_ms()" in inspect.getsource(each)} == NOT_OF_ROWS.keys()


def test_what_waits_says_that_it_waits_in_the_past(full, serving):
    (message,) = rows(full, "SELECT message_id FROM messages WHERE message = 'waits'")[0]
    asked = ("GET", f"/api/messages/{message}/why", None)
    (before,) = requests(serving, asked)
    made = mark(full)
    (found,) = requests(serving, asked)
    assert found.json()["reason"] == f"{before.json()['reason']} But {made.sentence}: here it stays so."


def test_no_sweep_is_missed_in_the_past(full, serving):
    """Of what was wrong then nothing can be mended."""
    with transaction(full):
        agent_pauses.pause(full, "assistant", "auth", "its login has expired", now_ms=NOW)
    assert "assistant is paused" in str(requests(serving, ("GET", "/api/health", None))[0].json()["problems"])
    mark(full)
    problems = requests(serving, ("GET", "/api/health", None))[0].json()["problems"]
    assert [each for each in problems if "does not run" not in each] == []


def test_a_mark_that_cannot_be_read_holds_all_the_same(full):
    with transaction(full):
        full.execute("INSERT INTO meta (key, value) VALUES ('past', '{')")
    before = dump(full)
    for make in (Dispatch, Deliver):
        assert start(make) == ([None, None], 0, [])
    assert dump(full) == before


@pytest.mark.parametrize("make", [Dispatch, Deliver])
def test_no_request_leaves_whatever_the_client_and_the_tokens_are(full, make):
    mark(full)
    platform = Platform()

    async def go():
        service = make(Settings.load(), platform)
        try:
            with pytest.raises(RequestNotSent, match="it sends to nobody"):
                await service.client.request("POST", "https://api.telegram.org/bot1:x/sendMessage", b"{}", {})
        finally:
            await service.close()

    asyncio.run(go())
    assert platform.asked == []


# -- replays


def replay_of(serving, session, agent, *messages):
    """Begin a replay and give these messages; the id of its session, and those of the copies."""
    begun, *_ = requests(serving, ("POST", "/api/past/replays", {"session": session, "agent": agent}))
    assert begun.status_code == 200, begun.json()
    replay = begun.json()["sessionId"]
    given = requests(
        serving, *(("POST", f"/api/past/replays/{replay}/messages", {"message": each}) for each in messages)
    )
    assert [each.status_code for each in given] == [200] * len(messages), [each.json() for each in given]
    return replay, [each.json()["messageId"] for each in given]


def worked(steps=1):
    async def go():
        service = Dispatch(Settings.load())
        await service.look_back()
        for _ in range(steps):
            await service.step()
            while service.worker.running:  # noqa: ASYNC110 - the worker tells only its own loop
                await asyncio.sleep(0.001)
        await service.close()

    asyncio.run(go())


ORIGINALS = "SELECT * FROM messages WHERE id <= :last ORDER BY id"
SESSIONS = "SELECT * FROM sessions WHERE id <= :last ORDER BY id"


@pytest.fixture
def conversation(full):
    """The past, its newest rows, and the session and the message that wait."""
    made = mark(full)
    last = rows(full, "SELECT max(id) FROM messages")[0][0]
    (found,) = rows(
        full,
        "SELECT s.session_id, m.message_id FROM messages m JOIN sessions s ON s.id = m.session_id"
        " WHERE m.message = 'waits'",
    )
    return made, last, *found


def test_a_replay_runs_alone_and_the_past_stays_as_it_was(full, serving, conversation):
    made, last, session, message = conversation
    messages = rows(full, ORIGINALS, {"last": last})
    sessions = rows(full, SESSIONS, {"last": made.newest_session})
    sent = rows(full, "SELECT * FROM responses")

    replay, (copy,) = replay_of(serving, session, "assistant", message)
    worked(2)

    told = rows(full, "SELECT status, content ->> '$.replay_of' FROM messages WHERE message_id = :id", {"id": copy})
    assert told == [("completed", message)]
    answered = rows(full, "SELECT r.message, r.status FROM responses r WHERE r.message_id = :id", {"id": copy})
    assert answered == [("You said: waits", "pending")]
    assert rows(full, ORIGINALS, {"last": last}) == messages
    assert rows(full, SESSIONS, {"last": made.newest_session}) == sessions
    assert rows(full, "SELECT * FROM responses LIMIT :n", {"n": len(sent)}) == sent
    assert start(Deliver) == ([None, None], 0, [])  # and nobody gets the answer
    assert rows(full, "SELECT status, replays IS NOT NULL FROM sessions WHERE session_id = :id", {"id": replay}) == [
        ("closed", 1)
    ]


def test_a_replay_that_was_running_when_dispatch_was_killed_is_tried_again(full, serving, conversation):
    _, last, session, message = conversation
    _, (copy,) = replay_of(serving, session, "assistant", message)
    full.execute(
        "UPDATE messages SET status = 'processing', claimed_by = 'turn_gone', lease = :lease WHERE message_id = :id",
        {"lease": 2 * NOW, "id": copy},
    )
    before = rows(full, ORIGINALS, {"last": last})
    worked()
    found = rows(full, "SELECT retry_count, status FROM messages WHERE message_id = :id", {"id": copy})
    assert found == [(0, "completed")]  # a lost dispatch is no attempt
    assert rows(full, ORIGINALS, {"last": last}) == before  # the turn that ran then has the same claim


def test_a_session_that_is_no_replay_waits_however_new_it_is(full, serving, conversation):
    """An agent that answers in a replay may hand work to another one: nobody asked that one to work."""
    _, _, session, message = conversation
    put(full, "handed over", chat="9")
    replay_of(serving, session, "assistant", message)
    worked(2)
    assert rows(full, "SELECT status FROM messages WHERE message = 'handed over'") == [("pending",)]


def test_a_living_database_takes_no_replay(full, serving):
    (session,) = rows(full, "SELECT session_id FROM sessions LIMIT 1")[0]
    asked = [
        ("POST", "/api/past/replays", {"session": session, "agent": "assistant"}),
        ("POST", f"/api/past/replays/{session}/messages", {"message": "m"}),
        ("GET", "/api/past", None),
    ]
    answers = requests(serving, *asked)
    assert [each.status_code for each in answers] == [409, 409, 200]
    assert "an answer would go to people" in answers[0].json()["error"]
    found = answers[2].json()
    assert (found["past"], abs(found["now"] - clock.now_ms()) < 60_000) == (None, True)


def test_a_session_of_the_past_is_given_no_message(full, serving, conversation):
    _, _, session, message = conversation
    (answered,) = requests(serving, ("POST", f"/api/past/replays/{session}/messages", {"message": message}))
    assert answered.status_code == 409
    assert "is of the past itself" in answered.json()["error"]


def test_a_message_of_another_session_is_not_given(full, serving, conversation):
    _, _, session, _ = conversation
    (other,) = rows(full, "SELECT message_id FROM messages WHERE message = 'answered'")[0]
    replay, _ = replay_of(serving, session, "assistant")
    (answered,) = requests(serving, ("POST", f"/api/past/replays/{replay}/messages", {"message": other}))
    assert answered.status_code == 409
