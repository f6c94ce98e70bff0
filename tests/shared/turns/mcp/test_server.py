import json

import httpx2
import pytest
from mcp_types import CallToolRequestParams

from tests.shared.turns.mcp.clients import Noted, connected, run, served, text_of

MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}


def with_client(folder, mode, work):
    tools = Noted()

    async def go():
        async with served(folder, {"good": tools}) as url, connected(url, "good", mode) as client:
            return await work(client)

    return run(go()), tools


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_lists_and_calls_tools_in_both_revisions(tmp_path, mode):
    async def work(client):
        listed = await client.list_tools()
        answer = await client.call_tool("say", {"text": "hello"})
        return client.protocol_version, [each.name for each in listed.tools], text_of(answer), answer.is_error

    found, tools = with_client(tmp_path, mode, work)
    assert found == (MODES[mode], ["say", "refuse"], "say: hello", False)
    assert tools.calls == [("say", {"text": "hello"}, None)]


@pytest.mark.parametrize("mode", MODES)
def test_an_error_of_a_tool_is_text_for_the_model_and_no_error_of_the_protocol(tmp_path, mode):
    async def work(client):
        answer = await client.call_tool("refuse", {"text": "no"})
        return text_of(answer), answer.is_error, answer.structured_content

    assert with_client(tmp_path, mode, work)[0] == ("refuse: no", True, None)


def test_a_client_that_could_ask_its_person_is_asked_nothing(tmp_path):
    """The revision 2026-07-28 lets an answer be ``input_required``. A question to a person is a row, and never that."""
    asked = []

    async def elicited(_, params):
        asked.append(params)

    async def go():
        async with (
            served(tmp_path, {"good": Noted()}) as url,
            connected(url, "good", "auto", elicitation_callback=elicited) as client,
        ):
            return client.protocol_version, (await client.call_tool("say", {"text": "?"})).result_type

    assert run(go()) == ("2026-07-28", "complete")
    assert asked == []


def post(folder, version, method, params, more=()):
    """One raw request, as the program sends it: codex asks for 2025-06-18. *more*: headers."""
    tools = Noted()
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"accept": "application/json, text/event-stream", "authorization": "Bearer good", **dict(more)}
    if version:
        headers["mcp-protocol-version"] = version

    async def go():
        async with served(folder, {"good": tools}) as url, httpx2.AsyncClient() as client:
            return await client.post(f"{url}/mcp", json=body, headers=headers)

    return run(go()), tools


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_a_client_gets_the_revision_that_it_asks_for(tmp_path, version):
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "codex", "version": "1"}}
    answer, _ = post(tmp_path, None, "initialize", hello)
    assert answer.json()["result"]["protocolVersion"] == version


@pytest.mark.parametrize("name", ["claudecode/toolUseId", "callId"])
def test_the_programs_own_call_id_is_the_call_id(tmp_path, name):
    params = {"name": "say", "arguments": {"text": "x"}, "_meta": {name: "call-7", "progressToken": 3}}
    assert CallToolRequestParams.model_validate(params, by_name=False).name == "say"
    answer, tools = post(tmp_path, "2025-06-18", "tools/call", params)
    assert answer.status_code == 200
    assert tools.calls == [("say", {"text": "x"}, "call-7")]


ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
def test_a_call_makes_no_list_of_all_tools(tmp_path, version):
    """The SDK would make it before each call, to look for arguments that stand in headers too: a third of the time."""
    params = {"name": "say", "arguments": {"text": "x"}, "_meta": ENVELOPE}
    routing = {"mcp-method": "tools/call", "mcp-name": "say"}
    answer, tools = post(tmp_path, version, "tools/call", params, routing)
    assert answer.json()["result"]["content"] == [{"type": "text", "text": "say: x"}]
    assert (tools.calls, tools.listed) == ([("say", {"text": "x"}, None)], 0)


@pytest.mark.parametrize("meta", [{"callId": 7}, {"callId": ""}, {"callId": ["a"]}, {}])
def test_a_call_id_of_another_form_counts_as_none(tmp_path, meta):
    _, tools = post(tmp_path, "2025-06-18", "tools/call", {"name": "say", "arguments": {"text": "x"}, "_meta": meta})
    assert tools.calls == [("say", {"text": "x"}, None)]


def test_a_body_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    answer, tools = post(tmp_path, "2025-06-18", "tools/call", {"name": "say", "arguments": {"text": "x" * 2**20}})
    assert (answer.status_code, tools.calls) == (413, [])


@pytest.mark.parametrize("params", [{"arguments": {}}, {"name": 5}, {"name": "say", "arguments": "text"}, [], None])
def test_a_malformed_call_is_an_error_of_the_protocol_and_calls_nothing(tmp_path, params):
    answer, tools = post(tmp_path, "2025-06-18", "tools/call", params)
    assert "error" in json.loads(answer.text)
    assert tools.calls == []
