"""A chat platform that accepts every message and notes when."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator

from aiohttp import web


class Platform:
    """Telegram's sendMessage. ``_called`` holds the future of each expected text."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._called: dict[str, asyncio.Future[float]] = {}

    def expect(self, text: str) -> "asyncio.Future[float]":
        """Resolved with the instant at which *text* is sent."""
        waiter: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._called[text] = waiter
        return waiter

    async def take(self, request: web.Request) -> web.Response:
        now = time.perf_counter()
        waiter = self._called.pop((await request.json())["text"], None)
        if waiter is not None and not waiter.done():
            waiter.set_result(now)
        return web.json_response({"ok": True, "result": {"message_id": 1}})


@contextlib.asynccontextmanager
async def platform() -> AsyncIterator[Platform]:
    """Serve on loopback until the block ends."""
    sock = socket.create_server(("127.0.0.1", 0))
    there = Platform(f"http://127.0.0.1:{sock.getsockname()[1]}")
    app = web.Application()
    app.router.add_post("/bot{token}/sendMessage", there.take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.SockSite(runner, sock).start()
        yield there
    finally:
        await runner.cleanup()
