"""Lines that a person writes in a row get one answer."""

import asyncio
import sys

import pytest

from functions.dispatch import Dispatch
from shared.channels.base import Event
from shared.conversation.inbound import events
from shared.core.policy import AccessPolicy
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import transaction
from shared.db.roster import chats
from shared.roster import wirings
from tests.support import column, make_agent

DEBOUNCE_MS = 5000


ANSWER = "import json, sys; print(', '.join(m['text'] for m in json.loads(sys.stdin.readline())['messages']))"


@pytest.fixture(autouse=True)
def chat(conn):
    make_agent(conn, "joiner", provider="command", config={"command": [sys.executable, "-c", ANSWER]})
    with transaction(conn):
        chat = chats.ensure(conn, "telegram", "100", is_group=False, sender_policy="public", now_ms=0).id
        wirings.connect(conn, chat, "joiner", {"debounce_ms": DEBOUNCE_MS}, now_ms=0)


def write(conn, *texts, ago_ms):
    for text in texts:
        line = Event("message", text, platform_id="100", sender="Ana", sender_id="5", text=text, is_mention=True)
        with transaction(conn):
            events.handle(conn, "telegram", line, AccessPolicy(), now_ms=clock.now_ms() - ago_ms)


def step():
    """One step of a new dispatch: the seconds until more is due."""

    async def go():
        service = Dispatch(Settings.load())
        due_s = await service.claim_and_start()
        while service.worker.running:  # noqa: ASYNC110 - the worker tells only its own loop
            await asyncio.sleep(0.001)
        await service.close()
        return due_s

    return asyncio.run(go())


def test_three_lines_get_one_answer_when_their_sender_is_still(conn):
    write(conn, "one", "two", "three", ago_ms=DEBOUNCE_MS)
    assert step() is None
    assert column(conn, "SELECT DISTINCT status FROM messages") == ["completed"]
    assert column(conn, "SELECT message FROM responses") == ["one, two, three"]


def test_dispatch_sleeps_until_then_and_needs_no_kick(conn):
    write(conn, "one", ago_ms=0)
    assert 0 < step() <= DEBOUNCE_MS / 1000
    assert column(conn, "SELECT status FROM messages") == ["pending"]
