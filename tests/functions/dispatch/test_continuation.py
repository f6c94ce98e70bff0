"""A provider's continuation survives the death of dispatch, in real turns of a real program."""

import asyncio
import subprocess
import sys

import pytest

from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.db.engine.connection import rows
from tests.support import column, make_agent, make_owner, put, row

STATUS = "SELECT status FROM messages ORDER BY id"
STORED = "SELECT continuation FROM sessions"

# Its first line says where it goes on. In a new conversation it then does what the message says.
PROGRAM = """
import json, sys, time
turn = json.load(sys.stdin)
thread = turn["continuation"] or "thread-1"
print(json.dumps({"type": "init", "continuation": thread}), flush=True)
text = turn["messages"][0]["text"]
if turn["continuation"] is None and text == "hang":
    time.sleep(600)
if turn["continuation"] is None and text == "fail":
    print(json.dumps({"type": "error", "message": "broken"}))
print(json.dumps({"type": "result", "text": f"{'went on' if turn['continuation'] else 'began'} in {thread}"}))
"""

DISPATCH = """
import asyncio
from functions.dispatch import Dispatch
from shared.core.settings import Settings

async def main():
    Dispatch(Settings.load()).worker.begin()
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def coder(conn):
    return make_agent(
        conn, "coder", provider="command", config={"command": [sys.executable, "-I", "-S", "-c", PROGRAM]}
    )


def test_after_a_kill_of_dispatch_in_mid_turn_the_next_attempt_goes_on_in_the_same_conversation(
    conn, until, to_the_end
):
    put(conn, "hang", agent="coder")

    async def kill_it():
        process = subprocess.Popen([sys.executable, "-c", DISPATCH])  # noqa: ASYNC220 - killed below
        try:
            await until(lambda: column(conn, STORED) == ["thread-1"])
            assert column(conn, STATUS) == ["processing"]
        finally:
            process.kill()
            process.wait()

    asyncio.run(kill_it())
    to_the_end()
    assert column(conn, "SELECT message FROM responses") == ["went on in thread-1"]
    assert row(conn, "messages")["retry_count"] == 0


def test_a_turn_that_fails_after_its_first_line_is_tried_again_in_the_same_conversation(conn, to_the_end):
    put(conn, "fail", agent="coder")
    to_the_end()
    assert column(conn, "SELECT message FROM responses") == ["went on in thread-1"]


def test_an_interrupted_turn_is_repeated_in_the_same_conversation(conn, until):
    put(conn, "hang", agent="coder")

    async def go():
        service = Dispatch(Settings.load())
        service.worker.begin()
        await until(lambda: column(conn, STORED) == ["thread-1"])
        put(conn, "now", agent="coder", urgency="urgent")
        service.worker.wake()
        await until(lambda: set(column(conn, STATUS)) == {"completed"} and not service.worker.running)
        await service.close()

    asyncio.run(go())
    assert column(conn, "SELECT message FROM responses") == ["went on in thread-1"]


def test_a_turn_that_ends_at_once_writes_its_session_once(conn, to_the_end):
    """The write beside the turn is for turns that last: it would be a commit more for each of the others."""
    rows(conn, "CREATE TABLE writes (continuation TEXT) STRICT")
    rows(
        conn,
        "CREATE TRIGGER noted AFTER UPDATE ON sessions BEGIN INSERT INTO writes VALUES (NEW.continuation); END",
    )
    make_owner(conn, "5")  # else the session notes that a stranger wrote
    put(conn, "hello")
    to_the_end()
    assert column(conn, "SELECT continuation FROM writes") == ["1"]
