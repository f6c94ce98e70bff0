"""Discord shows "thinking" under a command. It goes in every ending: answer, silence, error, cancel, expiry."""

import json
import time

import httpx
import pytest

from shared.channels import registry
from shared.channels.base import Event, WebhookRequest
from shared.conversation.inbound import events, withdrawals
from shared.core.policy import AccessPolicy
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, mailbox, responses
from shared.queue import cancellations, endings, replies, turns
from shared.queue.turns import Failure, RetryPolicy
from tests.functions.deliver.sending import Platform, step
from tests.functions.ingest.kit import EVENTS, discord
from tests.functions.sweep.kit import sweep_at
from tests.support import column

pytestmark = pytest.mark.usefixtures("day_of_the_events")

MINUTE = 60_000


@pytest.fixture(autouse=True)
def open_chats(monkeypatch):
    monkeypatch.setenv("POSTROOM_NEW_CHATS", "wire")


def ask(conn, number=1, at=None):
    """A person uses /ask in a direct chat, *at* this instant; the row of the message."""
    body = json.loads((EVENTS / "discord/011_slash_dm.json").read_bytes()) | {"id": str(1573273364452081671 + number)}
    call = discord(json.dumps(body).encode())
    request = WebhookRequest("POST", {}, call["headers"], call["content"])
    received = registry.get("discord").receive(request, now_ms=int(time.time() * 1000))
    now_ms = int(time.time() * 1000) if at is None else at
    with transaction(conn):
        for event in received.events:
            events.handle(conn, "discord", event, AccessPolicy.of(Settings.load()), now_ms=now_ms)
    return column(conn, "SELECT max(id) FROM messages")[0]


def claim_of(conn, row_id):
    ((agent, session),) = rows(conn, "SELECT agent, session_id FROM messages WHERE id = :id", {"id": row_id})
    now_ms = int(time.time() * 1000)
    with transaction(conn):
        return claims.claim(conn, agent, session, token="turn_a", now_ms=now_ms, lease_ms=60_000, limit=10)


def look(conn, now_ms=None):
    with transaction(conn):
        return endings.look(conn, now_ms=int(time.time() * 1000) if now_ms is None else now_ms)


def ends(platform):
    """What the platform was asked to do with the mark, without the token."""
    return [f"{method} {path.rpartition('/messages/')[2]}" for method, path, _ in platform.requests]


def gone(_):
    return httpx.Response(204)


def test_silence_takes_the_mark_away(conn):
    claim = claim_of(conn, ask(conn))
    with transaction(conn):
        turns.settle(conn, claim, [], None, now_ms=int(time.time() * 1000))
    assert ends(step(Platform(gone))) == ["DELETE @original"]
    assert column(conn, "SELECT status FROM responses") == ["acked"]
    assert look(conn) == 0


@pytest.mark.parametrize("is_running", [False, True])
def test_a_cancelled_command_takes_the_mark_away(conn, is_running):
    message = ask(conn)
    if is_running:
        claim_of(conn, message)
    with transaction(conn):
        cancellations.cancel(conn, message, reason="by hand", now_ms=int(time.time() * 1000))
    assert ends(step(Platform(gone))) == ["DELETE @original"]


def test_an_error_is_said_in_place_of_the_mark(conn):
    claim = claim_of(conn, ask(conn))
    policy = RetryPolicy.of(Settings.load())
    with transaction(conn):
        turns.fail(conn, claim, Failure("no such model", retryable=False), policy, now_ms=int(time.time() * 1000))
    platform = step(Platform())
    assert ends(platform) == ["PATCH @original"]
    assert platform.texts[0]


def test_a_mark_that_is_gone_already_is_as_it_should_be(conn):
    claim = claim_of(conn, ask(conn, at=int(time.time() * 1000) - MINUTE))
    with transaction(conn):
        turns.settle(conn, claim, [], None, now_ms=int(time.time() * 1000))
    step(Platform(lambda _: httpx.Response(404, json={"code": 10008, "message": "Unknown Message"})))
    assert column(conn, "SELECT status FROM responses") == ["acked"]


def test_what_was_told_to_send_again_keeps_that_sentence(conn):
    message = ask(conn)
    ((key,),) = rows(conn, "SELECT event_key FROM messages WHERE id = :id", {"id": message})
    with transaction(conn):
        assert withdrawals.withdraw(conn, "discord", (Event("command", key),), now_ms=1) == 1
    assert column(conn, "SELECT status FROM messages") == ["cancelled"]
    assert look(conn) == 0
    assert column(conn, "SELECT id FROM responses") == []


def test_a_turn_that_takes_longer_than_the_token_says_so_before_it_ends(conn):
    now_ms = int(time.time() * 1000)
    ask(conn, at=now_ms - 13 * MINUTE)
    assert look(conn, now_ms - MINUTE) == 0
    assert look(conn, now_ms) == 1
    assert look(conn, now_ms) == 0  # once
    platform = step(Platform())
    assert ends(platform) == ["PATCH @original"]
    assert platform.texts == [endings.STILL_WORKING]


def test_an_end_that_nobody_told_of_is_found(conn):
    """As where the rows were changed by hand, or by an older release."""
    message = ask(conn)
    with transaction(conn):
        rows(conn, "UPDATE messages SET status = 'cancelled' WHERE id = :id", {"id": message})
    assert look(conn) == 1
    assert ends(step(Platform(gone))) == ["DELETE @original"]
    assert look(conn) == 0


def test_an_answer_that_could_not_be_sent_is_said(conn):
    claim = claim_of(conn, ask(conn))
    with transaction(conn):
        turns.settle(conn, claim, [], None, now_ms=int(time.time() * 1000))
        rows(conn, "UPDATE responses SET status = 'dead', last_error = 'no', failure = 'error'")
    assert look(conn) == 1
    platform = step(Platform())
    assert platform.texts == [endings.NOT_SENT]
    assert look(conn) == 0


def test_an_ending_does_not_take_away_what_another_agent_said(conn):
    found = mailbox.get(conn, ask(conn)).message
    now_ms = int(time.time() * 1000)
    with transaction(conn):
        said = replies.response(found, "said", agent="assistant", session_id=found.session_id)
        responses.enqueue(conn, said, now_ms=now_ms)
        endings.enqueue(conn, [found], now_ms=now_ms)
    assert ends(step(Platform(), 2)) == ["PATCH @original"]
    assert column(conn, "SELECT status FROM responses") == ["acked", "acked"]


@pytest.mark.parametrize(
    ("is_open", "age", "count", "living", "verdict"),
    [
        (True, 0, 0, 0, "leave"),
        (True, 13, 0, 0, "tell"),
        (True, 13, 1, 1, "leave"),
        (True, 15, 0, 0, "leave"),
        (False, 0, 0, 0, "end"),
        (False, 0, 1, 1, "leave"),
        (False, 0, 1, 0, "apologise"),
        (False, 0, 2, 0, "leave"),
        (False, 15, 0, 0, "leave"),
    ],
)
def test_the_facts_decide(is_open, age, count, living, verdict):
    facts = endings.WaitFacts(is_open, age * MINUTE, count, living)
    assert endings.judge(facts, 15 * MINUTE) == verdict


def test_a_sentence_that_stands_there_is_not_taken_away_by_a_short_retention(conn, monkeypatch):
    """A dead message stays when its apology is old: it would look as if nobody had told its sender."""
    monkeypatch.setenv("POSTROOM_RETENTION_MS", "0")
    policy = RetryPolicy.of(Settings.load())
    for number in (1, 2):  # the newest row of all stays in any case
        claim = claim_of(conn, ask(conn, number))
        with transaction(conn):
            turns.fail(conn, claim, Failure("no such model", retryable=False), policy, now_ms=int(time.time() * 1000))
        step(Platform())
    now_ms = int(time.time() * 1000)
    sweep_at(now_ms + MINUTE)
    swept = sweep_at(now_ms + 2 * MINUTE)
    assert swept.counts["settled_waits"] == 0
    assert column(conn, "SELECT status FROM responses") == ["acked", "acked"]


def test_a_dead_command_whose_sentence_is_pruned_is_left_alone(conn):
    """As where the clock was an hour ahead for a while."""
    claim = claim_of(conn, ask(conn))
    policy = RetryPolicy.of(Settings.load())
    with transaction(conn):
        turns.fail(conn, claim, Failure("no such model", retryable=False), policy, now_ms=int(time.time() * 1000))
        rows(conn, "DELETE FROM responses")
    assert look(conn) == 0
