"""A terminal chat of a test, and an endpoint that answers what is said in it."""

import asyncio

from aiohttp import web

from emulator.cli import chat

ANA, DM, CHANNEL = "5000000001", "1290000000000000400", "1290000000000000200"


def replying(world, text):
    """The endpoint answers every update with *text* to its chat."""

    def answer(got):
        body = {"method": "sendMessage", "chat_id": got.body["message"]["chat"]["id"], "text": text}
        return web.json_response(body)

    world.endpoint.telegram = answer


def terminal(world, platform="telegram", **more):
    options = {"base_url": world.platforms.url, "person": "ana", "once": "hello", "timeout_s": 60.0, **more}
    return asyncio.to_thread(chat.run_chat, platform, **options)
