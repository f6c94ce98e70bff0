"""Calls of ``api``, as programs make them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
from starlette.types import Message

from functions import api
from tests.serving import Serving, app_of

Block = dict[str, str]
Frame = tuple[str | None, str, Any]  # id, name, data


def call(
    serving: Serving, *calls: tuple[str, str, dict[str, Any]], host: str = "127.0.0.1:3777"
) -> list[httpx.Response]:
    """The answers to *calls* (method, path, fields), one after the other."""

    async def go() -> list[httpx.Response]:
        async with serving(api, host) as client:
            return [await client.request(method, path, **fields) for method, path, fields in calls]

    return asyncio.run(go())


def ask(
    serving: Serving, method: str, path: str, body: Any = None, *, host: str = "127.0.0.1:3777", **fields: Any
) -> httpx.Response:
    """The answer to one call; *body* goes as JSON."""
    sent = fields if body is None else {"json": body, **fields}
    (reply,) = call(serving, (method, path, sent), host=host)
    return reply


def get(serving: Serving, path: str, **fields: Any) -> httpx.Response:
    return ask(serving, "GET", path, **fields)


def post(serving: Serving, body: Any, path: str = "/api/message", **fields: Any) -> httpx.Response:
    return ask(serving, "POST", path, body, **fields)


def made(reply: httpx.Response) -> Any:
    """What an answer of 200 says."""
    assert reply.status_code == 200, reply.text
    return reply.json()


@contextlib.asynccontextmanager
async def stream(
    query: str = "",
    *,
    path: str = "/api/events/stream",
    started: list[Message] | None = None,
    **headers: str,
) -> AsyncIterator[asyncio.Queue[Block]]:
    """Read an event stream live: a queue of its blocks, each a map of its fields.

    *started* gets the first message of the answer.
    """
    queue: asyncio.Queue[Block] = asyncio.Queue()
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "http_version": "1.1"}
    named = {"host": "127.0.0.1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope["query_string"] = query.encode()
    scope["headers"] = [(name.encode(), value.encode()) for name, value in named.items()]

    async def receive() -> Message:
        await asyncio.sleep(300)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if started is not None and message["type"] == "http.response.start":
            started.append(message)
        for block in message.get("body", b"").decode().split("\n\n"):
            if block:
                queue.put_nowait(dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")))

    task = asyncio.create_task(app_of(api)(scope, receive, send))
    try:
        assert (await asyncio.wait_for(queue.get(), 60))["event"] == "connected"
        yield queue
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def frames(queue: "asyncio.Queue[Block]", count: int) -> list[Frame]:
    """The next *count* frames, as (id or None, name, data)."""
    found = [await asyncio.wait_for(queue.get(), 60) for _ in range(count)]
    return [(block.get("id"), block["event"], json.loads(block["data"])) for block in found]


async def whole(queue: "asyncio.Queue[Block]", count: int) -> list[Frame]:
    """The next *count* frames that end a row."""
    found: list[Frame] = []
    while len(found) < count:
        found += [frame for frame in await frames(queue, 1) if frame[0] is not None]
    return found
