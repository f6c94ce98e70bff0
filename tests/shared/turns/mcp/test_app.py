import httpx2
import pytest

from tests.shared.turns.mcp.clients import Noted, run, served

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}


def ask(folder, tools_of, *, method="POST", path="/mcp", token="good", scheme="Bearer", **more):
    async def work():
        async with served(folder, tools_of) as url, httpx2.AsyncClient() as client:
            headers = {**HEADERS, **more.pop("headers", {}), "authorization": f"{scheme} {token}"}
            return await client.request(method, url + path, json=LIST, headers=headers)

    return run(work())


def test_a_token_of_a_turn_gets_its_tools(tmp_path):
    answer = ask(tmp_path, {"good": Noted()})
    assert answer.status_code == 200
    assert [each["name"] for each in answer.json()["result"]["tools"]] == ["say", "refuse"]


@pytest.mark.parametrize("token", ["other", "good2", "GOOD", "good good", "-"])
def test_any_other_token_is_refused_and_the_answer_says_why(tmp_path, token):
    answer = ask(tmp_path, {"good": Noted()}, token=token)
    assert answer.status_code == 401
    assert "belongs to no turn that runs" in answer.json()["error"]


def test_a_token_is_no_password_of_another_scheme(tmp_path):
    assert ask(tmp_path, {"good": Noted()}, scheme="Basic").status_code == 401


def test_after_the_turn_the_token_is_refused(tmp_path):
    tools_of = {"good": Noted()}

    async def work():
        async with served(tmp_path, tools_of) as url, httpx2.AsyncClient() as client:
            headers = {**HEADERS, "authorization": "Bearer good"}
            before = await client.post(f"{url}/mcp", json=LIST, headers=headers)
            tools_of.clear()
            after = await client.post(f"{url}/mcp", json=LIST, headers=headers)
            return before.status_code, after.status_code

    assert run(work()) == (200, 401)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_are_no_sessions_and_no_streams_that_could_hang(tmp_path, method):
    assert ask(tmp_path, {"good": Noted()}, method=method).status_code == 405


def test_only_the_one_path_is_served(tmp_path):
    assert ask(tmp_path, {"good": Noted()}, path="/mcp/../api").status_code == 404


def test_a_page_in_a_browser_can_not_use_the_tools(tmp_path):
    answer = ask(tmp_path, {"good": Noted()}, headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert ask(tmp_path, {"good": Noted()}, headers={"host": "evil.example"}).status_code == 421


def test_closing_a_server_that_was_never_asked_does_nothing(tmp_path):
    async def work():
        async with served(tmp_path, {}) as url:
            return url

    assert run(work()).startswith("http://127.0.0.1:")
