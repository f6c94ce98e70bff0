"""The whole gateway: access for programs, and refusals that make each of them stop at once."""

import asyncio
import subprocess
import sys

import pytest

from shared.core.errors import ConfigInvalid
from shared.db.engine.connection import transaction
from shared.db.spending import budgets
from shared.db.spending.usage import TurnName
from tests.shared.gateway.model_host import NAMES, PATHS, hosting, running, stream_of
from tests.support import NOW, column


@pytest.mark.parametrize(("name", "status"), [("messages", 402), ("chat", 402), ("responses", 429)])
def test_a_request_over_the_budget_reaches_no_host(db, conn, tmp_path, name, status):
    with transaction(conn):
        budgets.put(conn, None, "month", "tokens", 1, now_ms=NOW)

    async def go():
        async with hosting(stream_of(name)) as host, running(db, tmp_path / "run", host, NAMES[name]) as program:
            async with program.post(PATHS[name], json={"model": "m", "stream": True}) as answer:
                await answer.read()
            async with program.post(PATHS[name], json={"model": "m", "stream": True}) as answer:
                error = (await answer.json())["error"]
                return answer.status, "Retry-After" in answer.headers, error, program, len(host.requests)

    got, waits, error, program, requests = asyncio.run(go())
    assert (got, waits, requests) == (status, False, 1)
    assert error["message"].startswith("The budget of all agents (1 tokens a month) is used up until")
    assert error.get("code", "insufficient_quota") == "insufficient_quota"
    (refusal,) = program.refusals
    assert refusal.reason == "budget"
    assert refusal.until_ms > NOW - 10**12
    assert program.notices == [1]
    assert column(conn, "SELECT requests FROM usage") == [1]


def test_a_host_without_a_key_is_refused_by_name(db, tmp_path):
    async def go():
        async with hosting(stream_of("chat")) as host, running(db, tmp_path / "run", host) as program:
            await program.gateway.open("local", has_sandbox=True)

    with pytest.raises(ConfigInvalid, match="'local'"):
        asyncio.run(go())


def test_a_program_without_a_sandbox_gets_a_port(db, tmp_path):
    async def go():
        async with hosting(stream_of("chat")) as host, running(db, tmp_path / "run", host) as program:
            access = await program.gateway.open("openai", has_sandbox=False)
            program.gateway.begin(access.token, TurnName("turn_2", "coder", "session_2"), "openai", print)
            login = {"authorization": f"Bearer {access.token}"}
            async with program.client.post(f"http://gateway{access.path}/chat/completions", headers=login) as answer:
                return access.url, answer.status, access.is_plan

    url, status, is_plan = asyncio.run(go())
    assert url.startswith("http://127.0.0.1:")
    assert (status, is_plan) == (200, False)


def test_a_dispatch_without_programs_imports_no_http_client():
    code = "import sys, shared.gateway.model_gateway; print({'aiohttp', 'uvicorn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
