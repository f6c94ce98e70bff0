"""The tools of a turn, as a provider in this process has them, and as a program has them by MCP."""

import asyncio

import httpx2
import pytest

from shared.agents.base import Failed, Result
from shared.db.access import questions
from shared.db.engine.connection import rows, transaction
from shared.turns.tools import registry
from tests.serving import environment
from tests.shared.turns.gateway.model_host import hosting, reply
from tests.shared.turns.mcp.clients import connected, text_of
from tests.shared.turns.run import scripted_provider
from tests.shared.turns.run.scripted_provider import dispatching, one_step
from tests.support import column, put

__all__ = ["environment"]

SAID = "SELECT message FROM responses ORDER BY id"


def run(conn, monkeypatch, script, *, steps=1):
    async def go():
        async with hosting(reply(500)) as host:
            scripted_provider.use(monkeypatch, conn, script, host)
            async with dispatching() as service:
                for _ in range(steps):
                    await one_step(service)

    asyncio.run(asyncio.wait_for(go(), 60))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_program_uses_the_tools_by_mcp_with_the_token_of_its_turn(conn, monkeypatch, mode):
    seen = {}

    async def script(turn):
        access = await turn.doors.open(None, has_sandbox=False)
        seen["access"] = access
        async with connected(access.url, access.token, mode) as client:
            seen["tools"] = {each.name for each in (await client.list_tools()).tools}
            seen["answer"] = text_of(await client.call_tool("send_message", {"text": "working on it"}))
            seen["committed"] = column(conn, SAID)
            seen["refused"] = (await client.call_tool("send_message", {"text": "x", "to": "family"})).is_error
        yield Result("done")

    run(conn, monkeypatch, script)
    assert seen["tools"] == {spec.name for spec in registry.specs()}
    assert seen["answer"] == "Sent to this conversation as message 1."
    assert (seen["committed"], seen["refused"]) == (["working on it"], True)
    assert column(conn, SAID) == ["working on it", "done"]


def test_after_the_turn_the_token_opens_nothing(conn, monkeypatch):
    seen = {}

    async def post(access):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        headers = {
            "authorization": f"Bearer {access.token}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-06-18",
        }
        async with httpx2.AsyncClient() as client:
            return (await client.post(f"{access.url}{access.tools}", json=body, headers=headers)).status_code

    async def script(turn):
        access = await turn.doors.open(None, has_sandbox=False)
        seen["during"] = await post(access)
        seen["box"] = turn.tools
        try:
            yield Result("done")
        finally:
            seen["at the end"] = await post(access)

    run(conn, monkeypatch, script)
    assert (seen["during"], seen["at the end"]) == (200, 401)
    late = asyncio.run(seen["box"].call("send_message", {"text": "too late"}))
    assert (late.is_error, late.text[:18]) == (True, "the turn has ended")
    assert column(conn, SAID) == ["done"]


def test_a_turn_that_said_all_by_tools_needs_no_final_answer(conn, monkeypatch):
    async def script(turn):
        await turn.tools.call("send_message", {"text": "that is all"})
        yield Result("")

    run(conn, monkeypatch, script)
    assert column(conn, SAID) == ["that is all"]
    assert column(conn, "SELECT status FROM messages") == ["completed"]


def test_a_turn_that_used_a_tool_and_failed_is_not_run_again(conn, monkeypatch):
    runs = []

    async def script(turn):
        runs.append(turn.attempt)
        await turn.tools.call("send_message", {"text": "half of it"})
        yield Failed("it broke")

    run(conn, monkeypatch, script, steps=3)
    assert runs == [1]
    assert column(conn, SAID)[0] == "half of it"


def test_a_turn_is_told_which_question_a_text_answers(conn, monkeypatch):
    seen = []

    async def script(turn):
        seen.append(turn.messages[-1].reply_to)
        if len(seen) == 1:
            await turn.tools.call("ask_user_question", {"question": "How many?"})
            with transaction(conn):
                rows(conn, "UPDATE questions SET created_at = created_at - 1")
        yield Result("ok")

    async def go():
        async with hosting(reply(500)) as host:
            scripted_provider.use(monkeypatch, conn, script, host)
            async with dispatching() as service:
                await one_step(service)
                asked = column(conn, "SELECT created_at FROM questions")[0]
                put(conn, "three", agent="coder", now_ms=asked + 5)
                await one_step(service)

    asyncio.run(asyncio.wait_for(go(), 60))
    question = column(conn, "SELECT question_id FROM questions")[0]
    assert seen == [None, f"How many? ({question})"]
    assert questions.get(conn, question).answer == "three"
