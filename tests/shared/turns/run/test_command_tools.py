"""Agents of the provider ``command`` with tools, as docs/agents/programs.md tells it."""

import asyncio
import sys
from pathlib import Path

from functions.dispatch import Dispatch
from shared.core.settings import Settings
from tests.support import column, make_agent, put

DOCS = Path(__file__).parents[4] / "docs/agents/programs.md"


def run_turn():
    async def go():
        service = Dispatch(Settings.load())
        try:
            await service.claim_and_start()
            while service.worker.running:  # noqa: ASYNC110 - the worker tells only its own loop
                await asyncio.sleep(0.005)
        finally:
            await service.close()

    asyncio.run(asyncio.wait_for(go(), 60))


def test_the_agent_of_the_docs_works(conn, tmp_path):
    """It goes on from its own count, sends a message by a tool, reports tokens, and answers."""
    program = tmp_path / "main.py"
    program.write_text(DOCS.read_text().partition("```python\n")[2].partition("```")[0])
    config = {"command": [sys.executable, "-I", str(program)], "tools": True}
    make_agent(conn, "own", provider="command", config=config)
    for number in (1, 2):
        put(conn, f"message {number}", agent="own")
        run_turn()
    assert column(conn, "SELECT last_error FROM messages") == [None, None]
    said = column(conn, "SELECT message FROM responses ORDER BY id")
    assert [text for text in said if text == "One moment."] == ["One moment."] * 2
    answers = [text for text in said if text != "One moment."]
    assert [text.partition(".")[0] for text in answers] == ["Turn 1", "Turn 2"]
    assert all("The tool said: " in text for text in answers)
    assert conn.execute("SELECT agent, model, input, output FROM usage").fetchall() == [("own", "my-model", 10, 3)] * 2


WITHOUT_TOOLS = """
import json, sys
turn = json.loads(sys.stdin.readline())
print(json.dumps({"type": "tool_call", "id": "1", "name": "send_message", "arguments": {"text": "no"}}), flush=True)
print(json.dumps({"type": "result", "text": f"{'tools' in turn} {sys.stdin.readline()!r}"}), flush=True)
"""


def test_a_program_without_tools_in_its_config_calls_none_and_its_input_ends(conn):
    make_agent(conn, "own", provider="command", config={"command": [sys.executable, "-I", "-c", WITHOUT_TOOLS]})
    put(conn, agent="own")
    run_turn()
    assert column(conn, "SELECT message FROM responses") == ["False ''"]


REACHES = """
import os, urllib.error, urllib.request
request = urllib.request.Request(os.environ["POSTROOM_TOOLS_URL"], b"{}", {"Content-Type": "application/json"})
found = []
for token in (os.environ["POSTROOM_TOKEN"], "postroom-forged"):
    request.add_header("Authorization", "Bearer " + token)
    try:
        found.append(urllib.request.urlopen(request, timeout=20).status)
    except urllib.error.HTTPError as error:
        found.append(error.code)
print(found[0] != 401, found[1])
"""


def test_a_program_reaches_the_tools_over_http_with_its_own_token_only(conn):
    config = {"command": [sys.executable, "-I", "-c", REACHES], "mcp": True}
    make_agent(conn, "own", provider="command", config=config)
    put(conn, agent="own")
    run_turn()
    assert column(conn, "SELECT last_error FROM messages") == [None]
    assert column(conn, "SELECT message FROM responses") == ["True 401"]
