"""Platforms that answer by a script, and ``deliver`` at work in front of them."""

import asyncio
import json
import time

import httpx

from functions.deliver import Deliver
from shared.channels import registry
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.runtime.http_client import NoAnswer, RequestNotSent
from tests.fake_client import FakeClient
from tests.support import answer

LONG = "\n\n".join(f"Paragraph {number}: " + "word " * 180 for number in range(6))


class Platform:
    """Telegram and Discord: answers by *script*, and repeats its last entry."""

    def __init__(self, *script):
        self.requests = []
        self._script = list(script) or [sent]

    async def __call__(self, request):
        self.requests.append((request.method, request.url.path, json.loads(request.content or b"{}")))
        act = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        made = act(len(self.requests))
        return await made if asyncio.iscoroutine(made) else made

    @property
    def texts(self):
        return [body.get("text") or body.get("content") for _, _, body in self.requests]


def asks_about_sends(request):
    """The request is the one that asks Telegram whether it answers to sends."""
    return request.url.path.endswith("/sendMessage") and json.loads(request.content) == {"chat_id": 0, "text": ""}


class Alive(Platform):
    """Answers questions about its token and about sends: only what is sent follows the script, and is a request."""

    async def __call__(self, request):
        if request.url.path.endswith(("/getMe", "/users/@me")):
            return sent(0)
        if asks_about_sends(request):
            return refuse(400, description="Bad Request: message text is empty")(0)
        return await super().__call__(request)


def sent(number):
    return httpx.Response(200, json={"ok": True, "result": {"message_id": 9000 + number}, "id": str(9000 + number)})


def refuse(status, **fields):
    body = {"ok": False, "error_code": status, "description": "no", **fields}
    return lambda _: httpx.Response(status, json=body)


def unreachable(_):
    raise RequestNotSent("refused")


def silent(_):
    raise NoAnswer("nothing came")


async def hang(_):
    await asyncio.sleep(300)


def service_of(platform):
    return Deliver(Settings.load(), FakeClient(platform))


async def worked(service):
    await service.claim_and_start()
    while service.worker.running:  # noqa: ASYNC110 - the worker tells only its own loop
        await asyncio.sleep(0.001)


def step(platform, count=1):
    async def go():
        service = service_of(platform)
        for _ in range(count):
            await worked(service)
            await asyncio.sleep(0.003)  # the backoff of a test is at most 2 ms
        await service.close()

    asyncio.run(go())
    return platform


def held(conn):
    """Every wait is over."""
    with transaction(conn):
        rows(conn, "DELETE FROM call_holds")
        rows(conn, "UPDATE channel_outages SET probe_at = 1 WHERE probe_at IS NOT NULL")
        rows(conn, "UPDATE chats SET not_before = NULL")
        rows(conn, "UPDATE responses SET deliver_after = NULL")


def discord_answer(conn, text):
    channel = registry.get("discord")
    context = {
        "interaction_id": "1",
        "application_id": "1290000000000000001",
        "sealed_token": channel.seal("interaction-token"),
        "bot_is_there": True,
    }
    content = {"context": context, "asked_at": int(time.time() * 1000)}
    return answer(conn, text, channel="discord", in_reply_to=1, content=content)
