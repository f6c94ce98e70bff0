"""A message whose wiring lets it interrupt: the turn ends, and begins again with what it had and with the message."""

import asyncio

import pytest

from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, responses
from shared.queue import spoken, turns
from shared.queue.replies import response
from tests.functions.dispatch.working import batches
from tests.shared.turns.run.attentive_provider import attentive, chat, ended, happens, running
from tests.support import NOW, column, put, take, texts, wire

__all__ = ["attentive", "chat"]

STATES = "SELECT message, status, retry_count FROM messages ORDER BY id"
COMPLETED = [("first", "completed", 0), ("second", "completed", 0)]
SAID = "One moment."


@pytest.fixture(autouse=True)
def interrupting(conn, chat):
    wire(conn, chat, while_busy="interrupt", debounce_ms=0)


def say(conn, claim, text=SAID, key="k"):
    """As the tool ``send_message`` does."""
    new = response(claim.asked[0], text, agent=claim.agent, session_id=claim.session_id)
    with transaction(conn):
        spoken.say(conn, claim, new, key=key, now_ms=clock.now_ms())


async def interrupted(conn, service, attentive, text, ref):
    """The next message, until the turn with it runs."""
    before = len(attentive.prompts)
    happens(conn, "message", text, ref=ref)
    await service.claim_and_start()
    await ended(service)
    await service.claim_and_start()
    while len(attentive.prompts) == before:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def test_the_turn_begins_again_with_both_messages_at_no_attempt(conn, attentive, until):
    async def go():
        async with running(conn, until) as service:
            await interrupted(conn, service, attentive, "second", "2")
            attentive.may_end.set()
            await ended(service)

    asyncio.run(asyncio.wait_for(go(), 30))
    assert batches(conn) == [["first"], ["first", "second"]]
    assert rows(conn, STATES) == COMPLETED
    assert column(conn, "SELECT message FROM responses") == ["done"]


def test_what_it_had_said_stays_said_and_the_agent_reads_that_it_was(conn, attentive, until):
    async def go():
        async with running(conn, until) as service:
            (turn,) = service.running_turns.values()
            say(conn, turn.claim)
            await interrupted(conn, service, attentive, "second", "2")
            attentive.may_end.set()
            await ended(service)

    asyncio.run(asyncio.wait_for(go(), 30))
    assert batches(conn) == [["first"], ["first", "second"]]
    assert f"1. {SAID}" in attentive.prompts[1]
    assert rows(conn, STATES) == COMPLETED
    assert column(conn, "SELECT message FROM responses") == [SAID, "done"]
    assert column(conn, "SELECT content FROM agent_messages") == [SAID, "first", "second", "done"]


def test_it_is_interrupted_again_before_and_after_it_says_more(conn, attentive, until):
    async def go():
        async with running(conn, until) as service:
            (turn,) = service.running_turns.values()
            say(conn, turn.claim)
            await interrupted(conn, service, attentive, "second", "2")
            await interrupted(conn, service, attentive, "third", "3")
            (turn,) = service.running_turns.values()
            say(conn, turn.claim, "Still at it.", "k2")
            await interrupted(conn, service, attentive, "fourth", "4")
            attentive.may_end.set()
            await ended(service)

    asyncio.run(asyncio.wait_for(go(), 30))
    assert batches(conn)[-1] == ["first", "second", "third", "fourth"]
    assert "1. One moment.\n2. Still at it." in attentive.prompts[-1]
    assert {each[1:] for each in rows(conn, STATES)} == {("completed", 0)}
    assert column(conn, "SELECT message FROM responses") == [SAID, "Still at it.", "done"]
    asked = column(conn, "SELECT content FROM agent_messages WHERE role = 'user'")
    assert asked == ["first", "second", "third", "fourth"]


def test_it_goes_on_where_the_message_that_interrupted_it_is_gone_when_it_ends(conn, attentive, until):
    """It had spoken, and nothing is left to begin again with: it is not dead for that."""

    async def go():
        async with running(conn, until) as service:
            say(conn, next(iter(service.running_turns.values())).claim)
            happens(conn, "message", "second", ref="2")
            await service.claim_and_start()
            rows(conn, "UPDATE messages SET status = 'cancelled' WHERE message = 'second'")
            await ended(service)
            await service.claim_and_start()
            while len(attentive.prompts) == 1:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            attentive.may_end.set()
            await ended(service)

    asyncio.run(asyncio.wait_for(go(), 30))
    assert rows(conn, STATES) == [("first", "completed", 0), ("second", "cancelled", 0)]
    assert column(conn, "SELECT message FROM responses") == [SAID, "done"]
    assert SAID in attentive.prompts[1]


def test_a_kill_of_dispatch_before_the_turn_ends_leaves_the_new_message_its_turn(conn, chat):
    """As P7 wants it: what had spoken is not run again by itself."""
    happens(conn, "message", "first")
    claim = take(conn, now_ms=clock.now_ms())
    say(conn, claim)
    happens(conn, "message", "second", ref="2")

    async def go():
        service = Dispatch(Settings.load())
        await service.repair()
        await service.close()

    asyncio.run(asyncio.wait_for(go(), 30))
    assert rows(conn, STATES) == [("first", "dead", 1), ("second", "pending", 0)]
    assert texts(take(conn, now_ms=clock.now_ms())) == ["second"]


def test_a_kill_after_that_runs_both_again_with_what_was_said(conn, chat):
    happens(conn, "message", "first")
    claim = take(conn, now_ms=clock.now_ms())
    say(conn, claim)
    happens(conn, "message", "second", ref="2")
    with transaction(conn):
        turns.release(conn, claim, why="interrupted", now_ms=clock.now_ms())
    again = take(conn, token="turn_b", now_ms=clock.now_ms())
    assert (texts(again), again.goes_on) == (["first", "second"], True)
    with transaction(conn):
        turns.rescue(conn, turns.RetryPolicy(5, 1, 1, 0.0), now_ms=clock.now_ms(), everything=True)
    last = take(conn, token="turn_c", now_ms=clock.now_ms())
    assert (texts(last), last.goes_on) == (["first", "second"], True)


def test_a_line_that_waits_for_more_interrupts_when_its_sender_is_still(conn, chat):
    wire(conn, chat, while_busy="interrupt", debounce_ms=500)
    put(conn, "first")
    claim = take(conn, now_ms=clock.now_ms())
    happens(conn, "message", "second", ref="2")
    (since,) = column(conn, "SELECT created_at FROM messages WHERE id = 2")
    found = [claims.may_join(conn, claim, "interrupt", now_ms=since + ms, limit=10) for ms in (499, 500)]
    assert [len(each) for each in found] == [0, 1]


def test_a_full_batch_is_not_interrupted_for_a_message_that_it_has_no_room_for(conn, chat):
    for number in range(10):
        happens(conn, "message", f"{number}", ref=str(number))
    claim = take(conn, now_ms=clock.now_ms())
    happens(conn, "message", "late", ref="late")
    assert claims.may_join(conn, claim, "interrupt", now_ms=clock.now_ms(), limit=10) == []


def test_a_stop_of_dispatch_ends_a_turn_that_has_spoken_as_ever(conn, chat):
    happens(conn, "message", "first")
    claim = take(conn, now_ms=clock.now_ms())
    say(conn, claim)
    with transaction(conn):
        turns.release(conn, claim, why=turns.STOPPED, now_ms=NOW)
    assert rows(conn, STATES) == [("first", "dead", 1)]
    assert responses.was_said(conn, 1, turns.CUT_OFF)
