"""A provider that listens to what it is told while its turn runs, in a real dispatch, and the events of its chat."""

import asyncio
import contextlib

import pytest

from functions.dispatch import Dispatch
from shared.agents import registry
from shared.agents.base import Init, Progress, Result
from shared.channels.base import Event
from shared.conversation.inbound import events
from shared.core.policy import AccessPolicy
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import transaction
from shared.db.roster import chats
from tests.support import make_agent, wire

OPEN = AccessPolicy(new_chats="refuse", sender_limit=0, chat_limit=0, sender_bytes=0)


class Attentive:
    """A provider that says what it was told, and ends when the test lets it; *takes* decides what ``steer`` says.

    When ``works`` is set, it gives a sign of life.
    """

    def __init__(self):
        self.told, self.prompts, self.token = [], [], None
        self.may_end, self.asked, self.works = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.takes, self.is_late, self.end = True, False, Result("done")

    def check(self, config):
        """Any config is right."""

    def hears(self, turn):
        """While the turn runs."""
        return turn == self.token

    async def steer(self, turn, text):
        """As ``takes`` says; where it is late, after the end of the turn."""
        self.told.append(text)
        self.asked.set()
        if self.is_late:
            await self.may_end.wait()
            for _ in range(20):  # steps of the loop, in which the turn ends
                await asyncio.sleep(0)
        return self.takes

    async def run(self, turn):
        """One turn."""
        self.prompts.append(turn.prompt)
        self.token = turn.token
        yield Init("c1")
        while not self.may_end.is_set():
            waits = [asyncio.ensure_future(each.wait()) for each in (self.may_end, self.works)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if self.works.is_set():
                self.works.clear()
                yield Progress("works")
        self.token = None
        yield self.end


AGENT = []


def provider():
    """For the registry."""
    return AGENT[-1]


@pytest.fixture
def chat(conn, environment):
    with transaction(conn):
        chat_id = chats.ensure(conn, "telegram", "100", is_group=False, sender_policy="public", now_ms=0).id
    wire(conn, chat_id, debounce_ms=0)
    return chat_id


@pytest.fixture
def attentive(conn, chat, monkeypatch):
    """The agent of the chat has the provider ``Attentive``."""
    monkeypatch.setitem(registry._MODULES, "attentive", __name__)
    registry.get.cache_clear()
    make_agent(conn, "assistant", provider="attentive")
    AGENT.append(Attentive())
    yield AGENT[-1]
    registry.get.cache_clear()


def happens(conn, kind, text="", key=None, ref="1", **more):
    event = Event(
        kind, key or f"{kind} {ref} {text}", platform_message_id=ref, sender="Ana", text=text, is_mention=True,
        **{"platform_id": "100", "sender_id": "5", **more},
    )  # fmt: skip
    with transaction(conn):
        events.handle(conn, "telegram", event, OPEN, now_ms=clock.now_ms())


@contextlib.asynccontextmanager
async def running(conn, until, text="first"):
    """A dispatch whose turn with this message can be told something."""
    happens(conn, "message", text)
    service = Dispatch(Settings.load())
    try:
        await service.claim_and_start()
        (turn,) = service.running_turns.values()
        await until(lambda: registry.listening_to(turn.claim.token))
        yield service
    finally:
        await service.close()


async def ended(service):
    while service.worker.running:  # noqa: ASYNC110 - the worker tells only its own loop
        await asyncio.sleep(0.001)
