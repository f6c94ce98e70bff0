"""The whole gateway: access for programs, and refusals that make each of them stop at once."""

import asyncio
import socket
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
            async with (
                aiohttp.ClientSession() as client,
                client.post(
                    f"{access.url}{access.models}/chat/completions", headers=login, json={"model": "m"}
                ) as answer,
            ):
                return access.url, answer.status, access.is_plan

    url, status, is_plan = asyncio.run(go())
    assert url.startswith("http://127.0.0.1:")
    assert (status, is_plan) == (200, False)


@pytest.mark.parametrize("where", ["another session", "loopback", "inside another sandbox"])
def test_a_token_works_only_at_the_door_of_its_session(db, tmp_path, where):
    """Also beside a token that is good there: of two headers, either may be taken."""

    async def go():
        async with hosting(stream_of("chat")) as host, running(db, tmp_path / "run", host, "openai") as program:
            gateway, other = program.gateway, TURN._replace(session="session_2")
            access = await gateway.open(other, "openai", has_sandbox=where != "loopback")
            gateway.begin(access.token, ProgramTurn(other, print))
            url, connector = f"http://gateway{access.models}/chat/completions", None
            if where == "loopback":
                url = f"{access.url}{access.models}/chat/completions"
            elif where == "another session":
                connector = aiohttp.UnixConnector(str(access.socket))
            else:
                inside = await gateway.serve(socket.create_server(("127.0.0.1", 0)), access.socket)
                url = f"http://127.0.0.1:{inside.sockets[0].getsockname()[1]}{access.models}/chat/completions"
            stolen, own = program.token, access.token
            logins = [
                {"x-api-key": stolen},
                {"authorization": f"Bearer {stolen}"},
                {"authorization": f"Bearer {stolen}", "x-api-key": own},
                {"authorization": f"Bearer {own}", "x-api-key": stolen},
                {"x-api-key": own},
            ]
            found = []
            async with aiohttp.ClientSession(connector=connector) as client:
                for login in logins:
                    async with client.post(url, json={"model": "m"}, headers=login) as answer:
                        found.append((answer.status, len(host.requests)))
            if where == "inside another sandbox":
                inside.close()
            return found

    assert asyncio.run(go()) == [*[(401, 0)] * 4, (200, 1)]


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


@pytest.mark.parametrize(
    ("name", "body", "named"),
    [
        ("messages", {"mcp_servers": [{"type": "url", "url": "https://evil.example"}]}, "'mcp'"),
        ("chat", {"web_search_options": {}}, "'web_search'"),
        ("responses", {"tools": [{"type": "code_interpreter"}]}, "'code_execution'"),
        ("responses", {"warp": 9}, "request_fields"),
    ],
)
def test_what_the_config_does_not_allow_reaches_no_host(db, tmp_path, name, body, named):
    async def go():
        async with hosting(stream_of(name)) as host, running(db, tmp_path / "run", host, NAMES[name]) as program:
            async with program.post(PATHS[name], json={"model": "m", **body}) as answer:
                error = (await answer.json())["error"]["message"]
            return answer.status, error, [each.reason for each in program.refusals], len(host.requests)

    status, error, reasons, requests = asyncio.run(go())
    assert (status, reasons, requests) == (400, ["not_allowed"], 0)
    assert named in error
    assert "of the agent's config" in error


def test_counting_tokens_is_no_way_out(db, tmp_path):
    picture = {"type": "image", "source": {"type": "url", "url": "https://evil.example/?secret"}}

    async def go():
        async with hosting(stream_of("messages")) as host, running(db, tmp_path / "run", host) as program:
            asked = {"model": "m", "messages": [{"role": "user", "content": [picture]}]}
            async with program.post("/v1/messages/count_tokens", json=asked) as answer:
                return answer.status, len(host.requests)

    assert asyncio.run(go()) == (400, 0)
