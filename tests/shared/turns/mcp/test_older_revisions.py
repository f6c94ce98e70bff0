"""What the official client never sends: the answers are those of the protocol all the same."""

import httpx2
import pytest

from tests.shared.turns.mcp.clients import Noted, run, served

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", None]
HEADERS = {"accept": "application/json", "content-type": "application/json", "authorization": "Bearer good"}


class Broken(Noted):
    """Tools of which even the list fails."""

    def specs(self):
        raise RuntimeError("the words of a person")


def ask(folder, content, *, version="2025-06-18", tools=None, **headers):
    tools = tools or Noted()

    async def go():
        async with served(folder, {"good": tools}) as url, httpx2.AsyncClient() as client:
            of_version = {"mcp-protocol-version": version} if version else {}
            return await client.post(f"{url}/mcp", content=content, headers={**HEADERS, **of_version, **headers})

    return run(go()), tools


@pytest.mark.parametrize("version", VERSIONS)
def test_a_call_is_answered_with_its_id_in_each_revision(tmp_path, version):
    call = '{"jsonrpc":"2.0","id":"a\\u00e9","method":"tools/call","params":{"name":"say","arguments":{"text":"x"}}}'
    answer, _ = ask(tmp_path, call, version=version)
    assert answer.headers["content-type"] == "application/json"
    result = {"content": [{"type": "text", "text": "say: x"}], "isError": False}
    assert answer.json() == {"jsonrpc": "2.0", "id": "aé", "result": result}


def test_half_of_a_character_does_not_make_a_call_unreadable(tmp_path):
    """A program that cuts its text inside an emoji sends one; the toolbox mends it."""
    call = r'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"say","arguments":{"x":"cut \ud83d"}}}'
    answer, tools = ask(tmp_path, call)
    assert (answer.status_code, tools.calls) == (200, [("say", {"x": "cut \ud83d"}, None)])


def test_a_notification_is_taken_and_not_answered(tmp_path):
    answer, _ = ask(tmp_path, '{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert (answer.status_code, answer.content) == (202, b"")


@pytest.mark.parametrize("content", ["", "{", "[]", "5", '{"jsonrpc":"1.0","id":1,"method":"ping"}', "[" * 100_000])
def test_what_is_no_message_of_the_protocol_is_refused(tmp_path, content):
    answer, _ = ask(tmp_path, content)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "the body is no JSON-RPC message"
    assert answer.json()["id"] is None


def test_a_client_that_takes_no_json_is_refused(tmp_path):
    assert ask(tmp_path, "{}", accept="text/event-stream")[0].status_code == 406


def test_an_unknown_method_is_an_error_of_the_protocol(tmp_path):
    answer, _ = ask(tmp_path, '{"jsonrpc":"2.0","id":1,"method":"nonsense"}')
    assert (answer.status_code, answer.json()["id"], answer.json()["error"]["code"]) == (200, 1, -32601)


def test_a_client_does_not_read_what_broke_here(tmp_path):
    answer, _ = ask(tmp_path, '{"jsonrpc":"2.0","id":1,"method":"tools/list"}', tools=Broken())
    assert answer.json()["error"] == {"code": -32603, "message": "Internal server error"}
