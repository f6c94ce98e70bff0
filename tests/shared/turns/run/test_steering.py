"""What is steered into a turn that runs is answered by that turn or by the next one, and never by both."""

import asyncio
import json

import pytest

from functions.dispatch import Dispatch
from shared.agents.base import Failed
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, spoken
from shared.db.roster import chats
from shared.db.views import messages as views
from shared.db.views import why, why_sentences
from shared.queue import stops, turns
from shared.queue.turns import CUT_OFF, Failure, RetryPolicy
from tests.shared.turns.run.attentive_provider import attentive, chat, ended, happens, running
from tests.support import NOW, column, make_agent, put, take, wire

__all__ = ["attentive", "chat"]

STATES = "SELECT message, status, retry_count, spoken IS NOT NULL FROM messages ORDER BY id"
ANSWERS = "SELECT message FROM responses ORDER BY id"
POLICY = RetryPolicy(5, 1, 1, 0.0)


@pytest.fixture(autouse=True)
def steering(conn, chat):
    wire(conn, chat, while_busy="steer", debounce_ms=0)


def texts(found):
    return [text.partition(">")[2].removesuffix("</message>") for text in found]


def told(conn, attentive, until, *lines, ends=True):
    """A turn that is told these lines while it runs; with *ends*, to its end."""

    async def go():
        async with running(conn, until) as service:
            for number, line in enumerate(lines, 2):
                attentive.asked.clear()
                happens(conn, "message", line, ref=str(number))
                await service.claim_and_start()
                await attentive.asked.wait()
            if ends:
                attentive.may_end.set()
                await ended(service)

    asyncio.run(asyncio.wait_for(go(), 30))


def test_one_answer_is_for_all_that_the_turn_was_told(conn, attentive, until):
    told(conn, attentive, until, "second", "third")
    assert texts(attentive.told) == ["second", "third"]
    assert rows(conn, STATES) == [(text, "completed", 0, 0) for text in ("first", "second", "third")]
    assert column(conn, ANSWERS) == ["done"]
    assert column(conn, "SELECT content FROM agent_messages") == ["first", "second", "third", "done"]


def test_its_row_names_the_turn_that_answered_it(conn, attentive, until):
    told(conn, attentive, until, "second")
    first, second = column(conn, "SELECT message_id FROM messages ORDER BY id")
    (event,) = rows(conn, "SELECT message_id, data FROM events WHERE type = 'message_steered'")
    assert (event[0], json.loads(event[1])) == (second, {"into": first})
    assert [each["type"] for each in views.story(conn, 2)["events"]] == [
        *("message_received", "message_steered", "chain_step_done")
    ]
    reason = why_sentences.of_message(why.message(conn, 2, now_ms=NOW), now_ms=NOW)
    assert reason == ("answered_with", f"The turn of {first} heard it while it ran, and answered both.", None)


def test_what_the_agent_does_not_take_gets_a_turn_of_its_own_once(conn, attentive, until):
    attentive.takes = False

    async def go():
        async with running(conn, until) as service:
            happens(conn, "message", "second", ref="2")
            happens(conn, "message", "third", ref="3")
            await service.claim_and_start()
            await attentive.asked.wait()
            attentive.may_end.set()
            await ended(service)
            assert [each[1] for each in rows(conn, STATES)] == ["completed", "pending", "pending"]
            await service.claim_and_start()
            await ended(service)

    asyncio.run(asyncio.wait_for(go(), 30))
    assert texts(attentive.told) == ["second"]  # the third waits behind it
    assert [prompt.count("</message>") for prompt in attentive.prompts] == [1, 2]
    assert {each[1] for each in rows(conn, STATES)} == {"completed"}


@pytest.mark.parametrize("how", ["fails", "is stopped"])
def test_after_a_turn_that_ends_badly_it_runs_again_at_no_attempt(conn, attentive, until, how):
    attentive.end = Failed("broken")
    told(conn, attentive, until, "second", ends=how == "fails")
    assert rows(conn, STATES) == [*(("first", "pending", int(how == "fails"), 0), ("second", "pending", 0, 0))]
    assert column(conn, ANSWERS) == []


def test_a_turn_that_was_tried_before_is_told_nothing(conn, chat):
    """Else what is steered into each attempt could use up all of them."""
    claim = joined(conn, 0)
    with transaction(conn):
        turns.fail(conn, claim, Failure("broken"), POLICY, now_ms=NOW)
    again = take(conn, now_ms=NOW + 60_000)
    assert [message.message for message in again.batch] == ["first"]
    assert claims.next_to_tell(conn, again, now_ms=NOW + 60_000) is None


# -- a kill of dispatch


def joined(conn, spoke=None):
    """A claim that holds a steered message; what the turn said *before* or *after* it did."""
    happens(conn, "message", "first")
    claim = take(conn, now_ms=clock.now_ms())
    happens(conn, "message", "second", ref="2")
    with transaction(conn):
        if spoke == "before":
            spoken.add(conn, claim.token, "k", spoken.mark(conn, claim), None, now_ms=NOW)
        row = claims.next_to_tell(conn, claim, now_ms=clock.now_ms())
        steered = claims.join(conn, claim, row, now_ms=NOW)
        if spoke == "after":
            spoken.add(conn, claim.token, "k", spoken.mark(conn, claim), None, now_ms=NOW)
    return claims.Claim(claim.token, claim.session_id, claim.agent, claim.batch, told=(steered,))


AFTER_A_KILL = {
    "a turn that had said nothing": (None, ["pending", "pending"], []),
    "a turn that had spoken before": ("before", ["dead", "pending"], [CUT_OFF]),
    "a turn that has spoken since": ("after", ["dead", "dead"], [CUT_OFF]),
}


@pytest.mark.parametrize(("spoke", "states", "said"), AFTER_A_KILL.values(), ids=AFTER_A_KILL)
def test_a_kill_of_dispatch_lets_it_run_again_unless_something_was_said_to_it(conn, chat, spoke, states, said):
    joined(conn, spoke)

    async def go():
        service = Dispatch(Settings.load())
        await service.repair()
        await service.close()

    asyncio.run(asyncio.wait_for(go(), 30))
    assert column(conn, "SELECT status FROM messages ORDER BY id") == states
    assert column(conn, ANSWERS) == said


@pytest.mark.parametrize(("spoke", "states", "said"), AFTER_A_KILL.values(), ids=AFTER_A_KILL)
def test_so_does_a_failure(conn, chat, spoke, states, said):
    claim = joined(conn, spoke)
    with transaction(conn):
        turns.fail(conn, claim, Failure("broken"), POLICY, now_ms=NOW)
    assert column(conn, "SELECT status FROM messages ORDER BY id") == states
    assert column(conn, ANSWERS) == said
    lines = {None: [], "before": ["first"], "after": ["first", "second"]}[spoke]
    assert column(conn, "SELECT content FROM agent_messages") == lines


def test_a_settled_turn_that_did_not_hear_it_leaves_no_mark_of_what_it_said(conn, chat):
    claim = joined(conn, "after")
    with transaction(conn):
        unheard = claims.Claim(claim.token, claim.session_id, claim.agent, claim.batch, untold=claim.told)
        turns.settle(conn, unheard, [], None, now_ms=NOW)
    assert [each[1:] for each in rows(conn, STATES)] == [("completed", 0, 1), ("pending", 0, 0)]


# -- what is not steered


def test_an_older_message_is_not_overtaken(conn, chat):
    happens(conn, "message", "first")
    claim = take(conn, now_ms=clock.now_ms())
    put(conn, "of a task", kind="task")
    happens(conn, "message", "second", ref="2")
    assert claims.next_to_tell(conn, claim, now_ms=clock.now_ms()) is None


NOT_STEERED = {
    "files": {"attachments": ({"kind": "photo", "file_id": "f"},)},
    "a command with a place for its answer": {"kind": "command"},
}


@pytest.mark.parametrize("more", NOT_STEERED.values(), ids=NOT_STEERED)
def test_a_message_that_wants_a_turn_of_its_own_is_not_told(conn, chat, more):
    happens(conn, "message", "first")
    claim = take(conn, now_ms=clock.now_ms())
    what = {"kind": "message", **more}
    happens(conn, what.pop("kind"), "second", ref="2", **what)
    assert claims.next_to_tell(conn, claim, now_ms=clock.now_ms()) is None


def test_a_message_of_another_chat_of_the_session_is_not_told(conn, chat):
    with transaction(conn):
        other = chats.ensure(conn, "telegram", "200", is_group=False, sender_policy="public", now_ms=0).id
    for each in (chat, other):
        wire(conn, each, session_mode="agent-shared", while_busy="steer", debounce_ms=0)
    happens(conn, "message", "first")
    session = column(conn, "SELECT session_id FROM messages")[0]
    with transaction(conn):
        claim = claims.claim(conn, "assistant", session, token="t", now_ms=clock.now_ms(), lease_ms=60_000, limit=10)
    happens(conn, "message", "second", ref="2", platform_id="200")
    assert claims.next_to_tell(conn, claim, now_ms=clock.now_ms()) is None


def test_with_collect_nothing_is_told(conn, chat):
    wire(conn, chat, while_busy="collect", debounce_ms=0)
    happens(conn, "message", "first")
    claim = take(conn, now_ms=clock.now_ms())
    happens(conn, "message", "second", ref="2")
    assert claims.next_to_tell(conn, claim, now_ms=clock.now_ms()) is None


def test_lines_that_are_told_do_not_wait_for_more(conn, attentive, chat, until):
    wire(conn, chat, while_busy="steer", debounce_ms=9000)
    claim = [put(conn, "first"), take(conn, now_ms=clock.now_ms())][1]
    happens(conn, "message", "second", ref="2")
    assert claims.next_to_tell(conn, claim, now_ms=clock.now_ms()) == 2


def test_a_program_that_hears_only_now_and_then_is_told_when_it_begins_to(conn, attentive, until):
    """As Claude Code, which hears while a tool runs: no kick comes then."""

    async def go():
        async with running(conn, until) as service:
            token, attentive.token = attentive.token, None
            happens(conn, "message", "second", ref="2")
            await service.claim_and_start()
            assert attentive.told == []
            attentive.token = token
            attentive.works.set()
            await attentive.asked.wait()
            attentive.may_end.set()
            await ended(service)

    asyncio.run(asyncio.wait_for(go(), 30))
    assert texts(attentive.told) == ["second"]
    assert {each[1] for each in rows(conn, STATES)} == {"completed"}


def test_what_came_too_late_for_one_tool_is_told_while_the_next_one_runs(conn, attentive, until):
    attentive.takes = False

    async def go():
        async with running(conn, until) as service:
            (turn,) = service.running_turns.values()
            happens(conn, "message", "second", ref="2")
            await service.claim_and_start()
            await until(lambda: turn.telling.done())
            attentive.takes = True
            attentive.works.set()
            await until(lambda: turn.claim.told)
            attentive.may_end.set()
            await ended(service)

    asyncio.run(asyncio.wait_for(go(), 30))
    assert texts(attentive.told) == ["second"] * 2
    assert rows(conn, STATES) == [("first", "completed", 0, 0), ("second", "completed", 0, 0)]


# -- a stop


def test_a_stop_takes_what_its_sender_has_queued_and_then_the_turn_with_what_it_was_told(conn, chat):
    claim = joined(conn)
    happens(conn, "message", "ben", ref="3", sender_id="6")
    happens(conn, "message", "third", ref="4")
    with transaction(conn):
        done = stops.stop(conn, "assistant", claim.session_id, channel="telegram", sender_id="5", now_ms=NOW)
    assert done == (1, 2)
    assert [each[:2] for each in rows(conn, STATES)] == [
        *(("first", "cancelled"), ("second", "cancelled"), ("ben", "pending"), ("third", "cancelled"))
    ]


def test_a_stop_by_another_person_leaves_what_was_told_to_the_turn_for_the_next_one(conn, chat):
    claim = joined(conn)
    with transaction(conn):
        rows(conn, "UPDATE messages SET sender_id = '6' WHERE id = 2")
        stops.stop(conn, "assistant", claim.session_id, channel="telegram", sender_id="5", now_ms=NOW)
    assert [each[1] for each in rows(conn, STATES)] == ["cancelled", "pending"]


def test_an_agent_that_hears_nothing_collects(conn, chat):
    make_agent(conn, "assistant")
    happens(conn, "message", "!slow 60")

    async def go():
        service = Dispatch(Settings.load())
        await service.claim_and_start()
        happens(conn, "message", "second", ref="2")
        await service.claim_and_start()
        await service.close()

    asyncio.run(asyncio.wait_for(go(), 30))
    assert [each[1] for each in rows(conn, STATES)] == ["pending", "pending"]
