"""TinyAGI's clients see the end of every message, and what one turn said in its order.

Its channel clients show "typing" for each message until a response names its id. Its office shows "processing" from
``agent:invoke`` until ``agent:response``, and sorts what agents said by the instant alone.
"""

import asyncio
from itertools import pairwise

import pytest

from functions import api
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, messages
from shared.queue import turns
from shared.queue.teamwork import mailbox
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.api_client import ask, call, frames, get, post, stream, whole
from tests.support import NOW, column, make_agent, make_chat, put, take, wire

POLICY = RetryPolicy(max_attempts=5, base_ms=1, cap_ms=1, jitter=0.0)
PENDING = "/api/responses/pending?channel=telegram"


def say(serving, *ids, **more):
    """A person writes these messages through a channel client."""
    body = {"channel": "telegram", "sender": "Ana", "senderId": "4711", "message": "hello", **more}
    replies = call(serving, *(("POST", "/api/message", {"json": {**body, "messageId": each}}) for each in ids))
    assert [reply.status_code for reply in replies] == [200] * len(ids)


def claimed(conn, **key):
    """The turn of Ana's session."""
    return take(conn, chat="4711", **key)


def settle(conn, claim, *replies):
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply(text, claim.asked[place]) for text, place in replies], None, now_ms=NOW)


def pending(serving):
    return [(each["messageId"], each["message"]) for each in get(serving, PENDING).json()]


# -- every message of a polled channel gets its answer or its end


def test_three_messages_of_one_turn_with_one_answer_all_end(serving, conn):
    assert pending(serving) == []
    say(serving, "m1", "m2", "m3")
    settle(conn, claimed(conn), ("all of it", 0))
    assert pending(serving) == [("m1", "all of it"), ("m2", ""), ("m3", "")]
    assert [each["message"] for each in get(serving, "/api/responses").json()] == ["all of it"]
    assert column(conn, "SELECT content FROM agent_messages WHERE role = 'assistant'") == ["all of it"]


def test_answered_messages_get_no_further_end(serving, conn):
    assert pending(serving) == []
    say(serving, "m1", "m2")
    settle(conn, claimed(conn), ("first", 1), ("second", 0), ("third", 1))
    assert sorted(pending(serving)) == [("m1", "second"), ("m2", "first"), ("m2", "third")]


def test_no_end_is_stored_where_no_client_polls(serving, conn):
    say(serving, "m1", "m2")
    settle(conn, claimed(conn), ("all of it", 0))
    assert pending(serving) == [("m1", "all of it")]


def test_a_chat_that_an_adapter_serves_gets_no_empty_response(serving, conn):
    """A webhook made it known; the adapter would send the end to the person."""
    assert pending(serving) == []
    wire(conn, make_chat(conn, "4711"))
    say(serving, "m1", "m2")
    settle(conn, claimed(conn), ("all of it", 0))
    assert column(conn, "SELECT message FROM responses") == ["all of it"]


def test_messages_between_agents_and_in_rooms_get_no_end(serving, conn):
    make_agent(conn, "other")
    for channel in ("internal", "chatroom"):
        assert get(serving, f"/api/responses/pending?channel={channel}").json() == []
    for _ in range(2):
        with transaction(conn):
            mailbox.send(conn, "other", "assistant", "look", now_ms=NOW)
    (session,) = column(conn, "SELECT DISTINCT session_id FROM messages")
    with transaction(conn):
        claim = claims.claim(conn, "assistant", session, token="t", now_ms=NOW, lease_ms=9, limit=10)
    settle(conn, claim, ("done", 0))
    assert column(conn, "SELECT count(*) FROM responses") == [0]


def test_a_cancelled_message_ends(serving, conn):
    assert pending(serving) == []
    say(serving, "m1", "m2", "m3")
    assert post(serving, {}, "/api/messages/m1/cancel").status_code == 200
    claimed(conn)
    (row_id,) = column(conn, "SELECT id FROM messages WHERE message_id = 'm2'")
    assert post(serving, {}, f"/api/queue/processing/{row_id}/kill").status_code == 200
    assert pending(serving) == [("m1", ""), ("m2", "")]


def test_a_dead_message_ends_with_its_apology(serving, conn):
    assert pending(serving) == []
    say(serving, "m1", "m2")
    for _ in range(3):  # together, and then each alone
        claim = claimed(conn)
        with transaction(conn):
            turns.fail(conn, claim, Failure("no", retryable=False), POLICY, now_ms=NOW)
    assert pending(serving) == [("m1", turns.APOLOGY), ("m2", turns.APOLOGY)]


def test_a_channel_that_was_polled_once_is_remembered_over_a_restart(serving, conn):
    for path in (PENDING, PENDING, "/api/responses/pending?channel=no%20channel"):
        get(serving, path)
    assert column(conn, "SELECT channel FROM polled_channels") == ["telegram"]


# -- the instants of one turn grow


def test_what_one_turn_said_has_growing_instants(serving, conn):
    assert pending(serving) == []
    say(serving, "m1", "m2")
    claim = claimed(conn)
    settle(conn, claim, ("one", 0), ("two", 0), ("three", 0))
    history = [each["created_at"] for each in reversed(get(serving, "/api/agents/assistant/messages").json())]
    responses = [each["timestamp"] for each in get(serving, PENDING).json()]
    ready = column(conn, "SELECT created_at FROM events WHERE type = 'response_ready' ORDER BY id")
    for instants in (history, responses, ready):
        assert len(instants) >= 4
        assert all(before < after for before, after in pairwise(instants))


def test_what_one_turn_said_in_a_room_has_growing_instants(serving, conn):
    assert ask(serving, "PUT", "/api/teams/dev", {"name": "Dev", "agents": ["assistant"]}).status_code == 200
    assert post(serving, {"message": "who is there?"}, "/api/chatroom/dev").status_code == 200
    ((session, at_ms),) = rows(conn, "SELECT session_id, created_at FROM messages")
    with transaction(conn):
        claim = claims.claim(conn, "assistant", session, token="t", now_ms=at_ms, lease_ms=9, limit=10)
        said = [TurnReply(text, claim.asked[0]) for text in ("I", "am")]
        turns.settle(conn, claim, said, None, now_ms=at_ms + 5)
    assert [(line["message"], line["created_at"] - at_ms) for line in get(serving, "/api/chatroom/dev").json()] == [
        *(("am", 6), ("I", 5), ("who is there?", 0))
    ]


def test_the_end_of_a_turn_has_all_that_it_said_and_nothing_else(serving, conn):
    assert pending(serving) == []
    say(serving, "m1", "m2")
    settle(conn, claimed(conn), ("one", 0), ("two", 0))

    async def go():
        async with serving(api), stream("types=chain_step_done,agent:progress", last_event_id="0") as queue:
            return await frames(queue, 3)

    *progress, done = asyncio.run(go())
    assert [data["text"] for _, _, data in progress] == ["one", "two"]
    assert (done[2]["responseText"], done[2]["responseLength"]) == ("one\n\ntwo", 6)


# -- the pages of the office


def ends(serving, after, count=1):
    """The ``agent:response`` frames after the event *after*: which agent, and what it said."""

    async def go():
        async with serving(api), stream("types=agent:response", last_event_id=str(after)) as queue:
            return [(data["agentId"], data["content"]) for _, _, data in await whole(queue, count)]

    return asyncio.run(go())


def latest(conn):
    with transaction(conn):
        messages.announce(conn)
    return column(conn, "SELECT max(id) FROM events")[0]


def test_a_killed_turn_ends_on_the_pages(serving, conn):
    row_id = put(conn)
    put(conn)
    take(conn)
    before = latest(conn)
    assert post(serving, {}, f"/api/queue/processing/{row_id}/kill").status_code == 200
    assert ends(serving, before, 2) == [
        *(("assistant", "(The turn was stopped.)"), ("assistant", "(The turn was interrupted, and will be run again.)"))
    ]


FAILURES = {
    "(The turn failed.)": Failure("no", retryable=False),
    "(The turn failed, and will be tried again.)": Failure("no"),
}


@pytest.mark.parametrize(("content", "failure"), FAILURES.items(), ids=FAILURES)
def test_a_failed_turn_ends_on_the_pages(serving, conn, content, failure):
    put(conn)
    claim = take(conn)
    before = latest(conn)
    with transaction(conn):
        turns.fail(conn, claim, failure, POLICY, now_ms=NOW)
    assert ends(serving, before) == [("assistant", content)]


def test_a_cancelled_message_that_no_turn_had_changes_no_page(serving, conn):
    put(conn, given_id="m1")
    before = latest(conn)
    assert post(serving, {}, "/api/messages/m1/cancel").status_code == 200
    put(conn, given_id="m2")
    settle(conn, take(conn), ("done", 0))
    assert ends(serving, before) == [("assistant", "done")]


def test_a_turn_about_an_agents_answer_ends_on_the_pages(serving, conn):
    """Without a person behind it, what it says is in no response."""
    make_agent(conn, "other")
    with transaction(conn):
        asked = mailbox.send(conn, "assistant", "other", "look", now_ms=NOW)
        mailbox.reply(conn, asked, "seen", now_ms=NOW)
    ((agent, session),) = rows(conn, "SELECT agent, session_id FROM messages WHERE reply_to IS NOT NULL")
    with transaction(conn):
        claim = claims.claim(conn, agent, session, token="t", now_ms=NOW, lease_ms=9, limit=10)
    before = latest(conn)
    settle(conn, claim, ("thanks", 0))
    assert agent == "assistant"
    assert ends(serving, before) == [("assistant", "(The turn is over.)")]
