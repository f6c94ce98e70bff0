"""The limits of an agent's program, from its row to the row of the message."""

import asyncio
import sys

import pytest

from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.db.engine.connection import rows
from tests.support import make_agent, put

WAITS = "import time; time.sleep(600)"
LIMITS = {
    "idle_timeout": (
        {"idle_timeout_ms": 100},
        WAITS,
        "pending",
        "the program wrote nothing for 0.1 s, so Postroom ended it (idle_timeout_ms of the agent is the limit; to "
        "change it: `emulator agents set coder --idle-timeout TIME`)",
    ),
    "turn_timeout": (
        {"turn_timeout_ms": 100},
        WAITS,
        "pending",
        "the agent gave no result within 0.1 s, so Postroom ended it (turn_timeout_ms of the agent is the limit; to "
        "change it: `emulator agents set coder --turn-timeout TIME`)",
    ),
    "output_limit": (
        {"output_limit_bytes": 1024},
        "print('x' * 2000)",
        "dead",
        "the program wrote more than 1024 bytes, so Postroom ended it (output_limit_bytes of the agent is the limit; "
        "to change it: `emulator agents set coder --output-limit BYTES`)",
    ),
    "memory_limit": (
        {"memory_limit_mb": 50},
        f"x = bytearray(100_000_000); {WAITS}",
        "pending",
        "the program and what it started used more than 50 MB, so Postroom ended it (memory_limit_mb of the agent is "
        "the limit; to change it: `emulator agents set coder --memory-limit MB`)",
    ),
    "disk_limit": (
        {"disk_limit_mb": 20},
        f"open('shared/large', 'wb').write(bytes(30_000_000)); {WAITS}",
        "dead",
        "the program's folders used more than 20 MB, so Postroom ended it (disk_limit_mb of the agent is the limit; to "
        "change it: `emulator agents set coder --disk-limit MB`); what this turn wrote was deleted, the largest files "
        "first, until they used less",
    ),
    "crashed": ({}, "import sys; sys.exit(3)", "pending", "the program ended with code 3: nothing on standard error"),
    "killed": (
        {},
        "import os; os.kill(os.getpid(), 9)",
        "pending",
        "the program was ended by signal 9: nothing on standard error",
    ),
}


def step():
    async def go():
        service = Dispatch(Settings.load())
        await service.claim_and_start()
        while service.worker.running:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await service.close()

    asyncio.run(asyncio.wait_for(go(), 60))


FAILED = "SELECT failure, status, last_error FROM messages"


@pytest.mark.parametrize("word", LIMITS)
def test_each_limit_of_an_agent_is_a_word_on_the_message(conn, word):
    limits, source, status, reason = LIMITS[word]
    command = [sys.executable, "-I", "-S", "-c", source]
    make_agent(conn, "coder", provider="command", config={"command": command}, **limits)
    put(conn, agent="coder")
    step()
    assert rows(conn, FAILED) == [(word, status, reason)]


def test_an_agent_without_limits_has_those_of_the_settings(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_IDLE_TIMEOUT_MS", "150")
    make_agent(conn, "coder", provider="command", config={"command": [sys.executable, "-I", "-S", "-c", WAITS]})
    put(conn, agent="coder")
    step()
    ((failure, status, reason),) = rows(conn, FAILED)
    assert (failure, status) == ("idle_timeout", "pending")
    assert reason.startswith("the program wrote nothing for 0.15 s, so Postroom ended it")


CHATTER = """
import json, sys
line = json.dumps({{"type": "text", "text": "x"}}) + "\\n"
for _ in range({count}):
    sys.stdout.write(line)
"""
ENDED = "SELECT agent FROM messages WHERE status = 'completed' OR status = 'dead'"


FLOODS = {
    "plain": "while True: print('x' * 99)",
    "progress": """while True: print('{"type": "progress"}', ' ' * 479)""",
}


@pytest.mark.parametrize("source", FLOODS.values(), ids=FLOODS)
def test_an_agent_that_chatters_holds_up_no_other(conn, until, source):
    """Another agent's answer is there while the lines still come."""
    command = [sys.executable, "-I", "-S", "-c", source]
    make_agent(conn, "chatterer", provider="command", config={"command": command})

    async def go():
        service = Dispatch(Settings.load())
        put(conn, agent="chatterer")
        put(conn, "!slow 0.05 hi", chat="200")
        service.worker.begin()
        await until(lambda: rows(conn, ENDED) != [])
        first = rows(conn, ENDED)
        await until(lambda: not service.worker.running)
        await service.close()
        return first

    assert asyncio.run(asyncio.wait_for(go(), 60)) == [("assistant",)]


def test_a_turn_has_a_limit_of_texts(conn):
    """Each text is a message to a person."""
    source = CHATTER.format(count=1001)
    make_agent(conn, "coder", provider="command", config={"command": [sys.executable, "-I", "-S", "-c", source]})
    put(conn, agent="coder")
    step()
    assert rows(conn, FAILED) == [("output_limit", "dead", "the agent gave more than 1000 texts in one turn")]
