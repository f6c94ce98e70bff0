"""What a test of sending to Discord gives, and what Discord answers."""

import asyncio

import httpx

from shared.channels.base import Outgoing, Part
from tests.fake_client import Answering, FakeClient

NOW = 1_795_168_000_000
TOKEN = "aW50ZXJhY3Rpb24-6_x.y"
BOT = "MTI5MDAwMDAwMDAwMDAwMDAwMQ.Example.ExampleExampleExample"
BASE = "http://127.0.0.1:1/api/v10"
WEBHOOK = f"{BASE}/webhooks/1290000000000000001/{TOKEN}"
MESSAGE = {"id": "4242", "content": "hi"}


def ok():
    return httpx.Response(200, json=MESSAGE)


def refusal(status, code, message="no"):
    return httpx.Response(status, json={"code": code, "message": message})


class Platform(Answering):
    @property
    def calls(self):
        return [f"{request.method} {request.url}" for request in self.requests]


def send(adapter, platform, *, age_ms=3000, context=None, part=None, **changes):
    usual = {
        "response_id": 1,
        "part_index": 0,
        "platform_id": "200",
        "thread_id": None,
        "reply_to": "9",
        "asked_at_ms": NOW - age_ms,
        "is_first": True,
    }
    context = {"sealed_token": adapter.seal(TOKEN), "bot_is_there": True} if context is None else context
    to = Outgoing(**{**usual, **changes}, context=context)

    async def go():
        sent = await adapter.send(part or Part("hi @everyone"), to, FakeClient(platform), now_ms=NOW)
        return sent.message_id

    return asyncio.run(go())
