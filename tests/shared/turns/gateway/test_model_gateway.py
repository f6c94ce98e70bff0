"""The whole gateway: access for programs, and refusals that make each of them stop at once."""

import asyncio
import subprocess
import sys

import aiohttp
import pytest

from shared.core.errors import ConfigInvalid
from shared.db.engine.connection import transaction
from shared.db.spending import budgets
from shared.turns.gateway.model_gateway import ModelGateway
from shared.turns.gateway.tokens import ProgramTurn
from tests.shared.turns.gateway.model_host import NAMES, PATHS, TURN, hosting, running, stream_of
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
            await program.gateway.open(TURN, "local", has_sandbox=True)

    with pytest.raises(ConfigInvalid, match="'local'"):
        asyncio.run(go())


def test_a_program_without_a_sandbox_gets_a_port(db, tmp_path):
    async def go():
        async with hosting(stream_of("chat")) as host, running(db, tmp_path / "run", host) as program:
            access = await program.gateway.open(TURN, "openai", has_sandbox=False)
            program.gateway.begin(access.token, ProgramTurn(TURN, print))
            login = {"authorization": f"Bearer {access.token}"}
            async with program.client.post(
                f"http://gateway{access.models}/chat/completions", headers=login, json={"model": "m"}
            ) as answer:
                return access.url, answer.status, access.is_plan

    url, status, is_plan = asyncio.run(go())
    assert url.startswith("http://127.0.0.1:")
    assert (status, is_plan) == (200, False)


class Tools:
    """An application of tools that says what the token's turn has."""

    def __init__(self, find):
        self.find, self.news = find, []

    def begin(self):
        self.news.append("begin")

    async def close(self):
        self.news.append("close")

    async def __call__(self, scope, receive, send):
        found = self.find(dict(scope["headers"])[b"authorization"].decode().removeprefix("Bearer "))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(found).encode()})


def test_tools_are_those_of_the_turn_of_now_and_none_between_turns(db, tmp_path):
    made = []

    def make(find):
        made.append(Tools(find))
        return made[-1]

    async def go():
        gateway = ModelGateway(tmp_path / "run", None, None, timezone="UTC", on_notice=print, tools=make)
        access = await gateway.open(TURN, None, has_sandbox=True)
        headers = {"authorization": f"Bearer {access.token}"}
        found = [access.models, access.is_plan]
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(access.socket))) as client:
            for tools in (None, "first tools", "second tools", None):
                gateway.end(access.token)
                if tools:
                    gateway.begin(access.token, ProgramTurn(TURN, print, tools))
                async with client.post(f"http://gateway{access.tools}", headers=headers) as answer:
                    found.append(await answer.text())
        await gateway.close()
        return found

    assert asyncio.run(go()) == ["", False, "None", "first tools", "second tools", "None"]
    assert [tools.news for tools in made] == [["begin", "close"]]


def test_a_dispatch_without_programs_imports_no_http_client():
    code = "import sys, shared.turns.gateway.model_gateway; print({'aiohttp', 'uvicorn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
