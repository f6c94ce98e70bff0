"""A program of the provider ``command`` that asked to be told what people write while it runs."""

import asyncio
import sys

import pytest

from shared.db.engine.connection import rows
from tests.serving import environment, until
from tests.shared.turns.run.attentive_provider import chat, ended, happens, running
from tests.support import column, make_agent, wire

__all__ = ["chat", "environment", "until"]

STATES = "SELECT message, status FROM messages ORDER BY id"
PROGRAM = """
import json, sys
asked = json.loads(sys.stdin.readline())
assert asked["hears"] is True
if len(asked["messages"]) > 1 or asked["messages"][0]["text"] == "second":
    print(json.dumps({"type": "result", "text": "in a turn of its own"}), flush=True)
    sys.exit()
told = json.loads(sys.stdin.readline())
assert told["type"] == "message" and ">second</message>" in told["prompt"], told
if TAKES:
    print(json.dumps({"type": "heard", "number": told["number"]}), flush=True)
print(json.dumps({"type": "result", "text": "done"}), flush=True)
"""


def turn_of(conn, until, takes):
    program = f"TAKES = {takes}\n{PROGRAM}"
    config = {"command": [sys.executable, "-c", program], "hears": True}
    make_agent(conn, "assistant", provider="command", config=config)

    async def go():
        async with running(conn, until) as service:
            happens(conn, "message", "second", ref="2")
            await service.claim_and_start()
            await ended(service)
            await service.claim_and_start()
            await ended(service)

    asyncio.run(asyncio.wait_for(go(), 60))


@pytest.mark.parametrize(
    ("takes", "answers"),
    [(True, ["done"]), (False, ["done", "in a turn of its own"])],
    ids=["it says that it heard", "it does not"],
)
def test_a_message_belongs_to_the_turn_whose_program_says_that_it_heard_it(conn, chat, until, takes, answers):
    wire(conn, chat, while_busy="steer")
    turn_of(conn, until, takes)
    assert column(conn, "SELECT message FROM responses ORDER BY id") == answers
    assert rows(conn, STATES) == [("first", "completed"), ("second", "completed")]
