"""A turn's ways to models: open while it runs, closed by whatever ends it, and the refusals that end it."""

import asyncio

import pytest

from shared.agents.base import Failed, Result, Text, Used
from shared.conversation.inbound import decisions
from shared.conversation.inbound.decisions import OPERATOR
from shared.core.time import clock
from shared.db.engine.connection import rows, transaction
from shared.db.spending import budgets, usage
from shared.db.spending.usage import Tokens, TurnName
from tests.approval_requests import POLICY
from tests.serving import day_of_the_events, environment, leap
from tests.shared.turns.gateway.model_host import hosting, reply, stream_of
from tests.shared.turns.run import scripted_provider
from tests.shared.turns.run.scripted_provider import ask, dispatching, one_step
from tests.support import NOW, column, put

__all__ = ["day_of_the_events", "environment"]

pytestmark = pytest.mark.usefixtures("day_of_the_events")  # budgets of a day: no midnight may come between

OUTCOME = "SELECT status, failure, last_error FROM messages"
ENDINGS = ("answer", "error", "exception", "timeout", "cancel", "stop")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_program_reaches_models_until_its_turn_ends_whatever_ends_it(conn, monkeypatch, ending):
    seen = {}

    async def script(turn):
        access = await turn.doors.open("anthropic", has_sandbox=True)
        seen["during"] = await ask(access)
        seen["access"] = access
        if ending == "exception":
            raise OSError("no")
        if ending in ("timeout", "cancel", "stop"):
            await asyncio.Event().wait()
        try:
            yield Failed("no") if ending == "error" else Result("yes")
        finally:  # the program is not ended yet, and the doors are closed already
            seen["at the end"] = await ask(access)

    async def go():
        async with hosting(stream_of("messages")) as host:
            scripted_provider.use(monkeypatch, conn, script, host)
            rows(conn, "UPDATE agents SET turn_timeout_ms = 30000 WHERE id = 'coder'")
            async with dispatching() as service:
                await service.claim_and_start()
                while "access" not in seen:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                if ending == "timeout":
                    leap(30)
                if ending == "cancel":
                    next(iter(service.running_turns.values())).task.cancel()
                if ending == "stop":
                    await service.worker.stop()
                while service.worker.running:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                seen["after"] = await ask(seen["access"])
            return len(host.requests), seen.pop("access").socket.exists()

    assert asyncio.run(asyncio.wait_for(go(), 60)) == (1, False)
    assert seen == {"during": 200, "after": None} | ({"at the end": None} if ending in ("answer", "error") else {})


def test_a_program_that_lives_on_is_refused_between_turns_and_works_for_the_next(conn, monkeypatch):
    kept, found = [], []

    async def script(turn):
        if not kept:
            kept.append(await turn.doors.open("anthropic", has_sandbox=True, lives_on=True))
        else:
            turn.doors.enter(kept[0])
        found.append(await ask(kept[0]))
        if len(found) == 3:
            turn.doors.close(kept[0])
            found.append(await ask(kept[0]))
        yield Result("yes")

    async def go():
        async with hosting(stream_of("messages")) as host:
            scripted_provider.use(monkeypatch, conn, script, host)
            async with dispatching() as service:
                await one_step(service)
                found.append(await ask(kept[0]))
                put(conn, agent="coder")
                await one_step(service)

    asyncio.run(asyncio.wait_for(go(), 60))
    assert found == [200, 402, 200, None]  # its door is shut
    assert column(conn, "SELECT requests FROM usage ORDER BY id") == [1, 1]
    assert len(set(column(conn, "SELECT turn FROM usage"))) == 2


def refused(conn, monkeypatch, serve, script):
    async def go():
        async with hosting(serve) as host:
            scripted_provider.use(monkeypatch, conn, script, host)
            async with dispatching() as service:
                await one_step(service)
            return len(host.requests)

    requests = asyncio.run(asyncio.wait_for(go(), 60))
    return requests, rows(conn, OUTCOME)[0]


@pytest.mark.parametrize("why", ["budget", "login"])
def test_a_refusal_that_makes_going_on_senseless_ends_the_program_at_once(conn, monkeypatch, why):
    async def script(turn):
        yield Text("I begin.")
        await ask(await turn.doors.open("anthropic", has_sandbox=True))
        await asyncio.Event().wait()

    if why == "budget":
        with transaction(conn):
            budgets.put(conn, None, "day", "tokens", 0, now_ms=NOW)
    requests, (_, _, error) = refused(conn, monkeypatch, reply(401), script)
    assert requests == (0 if why == "budget" else 1)
    assert ("is used up until" if why == "budget" else "anthropic answered 401") in error
    assert column(conn, "SELECT count(*) FROM responses WHERE message = 'I begin.'") == [0]


def test_a_refusal_decides_over_what_the_program_says_of_it(conn, monkeypatch):
    async def script(turn):
        await ask(await turn.doors.open("anthropic", has_sandbox=True))
        yield Failed("something went wrong")

    _, outcome = refused(conn, monkeypatch, reply(429, retry_after="30"), script)
    assert outcome == (
        "pending",
        "rate_limited",
        "anthropic answered 429: too many requests",
    )


@pytest.mark.parametrize("then", [200, 400])
def test_a_request_that_is_not_refused_afterwards_makes_a_refusal_forgotten(conn, monkeypatch, then):
    answers = iter([reply(529), stream_of("messages") if then == 200 else reply(then)])

    async def serve(request):
        return await next(answers)(request)

    async def script(turn):
        access = await turn.doors.open("anthropic", has_sandbox=True)
        assert [await ask(access), await ask(access)] == [529, then]
        yield Failed("something else went wrong")

    _, (_, failure, error) = refused(conn, monkeypatch, serve, script)
    assert (failure, error) == ("error", "something else went wrong")


def test_an_answer_in_spite_of_a_refusal_counts(conn, monkeypatch):
    async def script(turn):
        await ask(await turn.doors.open("anthropic", has_sandbox=True))
        yield Result("I managed.")

    _, outcome = refused(conn, monkeypatch, reply(529), script)
    assert outcome == ("completed", None, None)


def use_up(conn, percent):
    """A budget of a hundred tokens a day, of which so many are used."""
    with transaction(conn):
        budgets.put(conn, "coder", "day", "tokens", 100, now_ms=NOW)
        name = TurnName("turn_0", "coder", "session_0")
        usage.add(conn, name, "m", "key", Tokens(percent), None, now_ms=clock.now_ms())


def test_what_waits_for_a_budget_goes_on_when_an_owner_gives_more(conn, monkeypatch):
    seen = []

    async def script(turn):
        seen.append(turn.messages[0].text)
        assert await ask(await turn.doors.open("anthropic", has_sandbox=True)) == 200
        yield Result("yes")

    async def go():
        async with hosting(stream_of("messages")) as host:
            scripted_provider.use(monkeypatch, conn, script, host)
            use_up(conn, 100)
            async with dispatching() as service:
                await one_step(service)
                put(conn, "second", agent="coder")
                await one_step(service)
                waiting = rows(conn, "SELECT status, retry_count FROM messages"), list(seen)
                (asked,) = column(conn, "SELECT approval_id FROM approvals WHERE kind = 'budget'")
                with transaction(conn):
                    done = decisions.decide(conn, asked, 0, OPERATOR, policy=POLICY, now_ms=clock.now_ms())
                for _ in range(3):
                    await one_step(service)
                return waiting, done.stored

    (waiting, first), stored = asyncio.run(asyncio.wait_for(go(), 60))
    assert (waiting, first) == ([("pending", 0), ("pending", 0)], [])  # no program was started
    assert stored > 0  # whoever decides kicks dispatch
    assert seen == ["hello"]  # one batch of both
    assert column(conn, "SELECT status FROM messages") == ["completed", "completed"]


@pytest.mark.parametrize(("unit", "code", "cards"), [("tokens", "budget", 1), ("money", "bad_config", 0)])
def test_a_program_that_says_itself_what_it_used_is_held_by_its_budget(conn, monkeypatch, unit, code, cards):
    """In money too, where its model has no price."""
    seen = []

    async def script(turn):
        seen.append(turn.messages[0].text)
        yield Used("my-model", 60, 60)
        yield Result("yes")

    async def go():
        async with hosting(stream_of("messages")) as host:
            scripted_provider.use(monkeypatch, conn, script, host)
            with transaction(conn):
                budgets.put(conn, "coder", "day", unit, 100, now_ms=NOW)
                conn.execute("UPDATE agents SET updated_at = 0")  # the tests' clock is ahead of the machine's
            async with dispatching() as service:
                await one_step(service)
                put(conn, "second", agent="coder")
                await one_step(service)

    asyncio.run(asyncio.wait_for(go(), 60))
    assert seen == ["hello"]
    assert rows(conn, "SELECT status, retry_count FROM messages ORDER BY id") == [("completed", 0), ("pending", 0)]
    assert column(conn, "SELECT code FROM agent_pauses") == [code]
    assert column(conn, "SELECT count(*) FROM approvals WHERE kind = 'budget'") == [cards]


@pytest.mark.parametrize(("percent", "channel", "runs"), [(79, "heartbeat", 1), (80, "heartbeat", 0), (80, "api", 1)])
def test_heartbeats_stop_first(conn, monkeypatch, percent, channel, runs):
    seen = []

    async def script(turn):
        seen.append(turn.messages[0].text)
        yield Result("yes")

    async def go():
        async with hosting(stream_of("messages")) as host:
            scripted_provider.use(monkeypatch, conn, script, host)
            rows(conn, "UPDATE messages SET channel = :channel", {"channel": channel})
            use_up(conn, percent)
            async with dispatching() as service:
                await one_step(service)

    asyncio.run(asyncio.wait_for(go(), 60))
    assert len(seen) == runs
    assert column(conn, "SELECT status FROM messages") == ["completed"]
    reasons = column(conn, "SELECT data ->> 'reason' FROM events WHERE type = 'turn_not_run'")
    assert len(reasons) == 1 - runs
    assert all("80 % of the budget of agent coder (100 tokens a day) is used." in each for each in reasons)
