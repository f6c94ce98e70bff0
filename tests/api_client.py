"""Calls of ``api``, as programs make them."""

import asyncio
import contextlib
import json

from functions import api
from tests.serving import app_of


def call(serving, *calls, host="127.0.0.1:3777"):
    """The answers to *calls* (method, path, fields), one after the other."""

    async def go():
        async with serving(api, host) as client:
            return [await client.request(method, path, **fields) for method, path, fields in calls]

    return asyncio.run(go())


def ask(serving, method, path, body=None, *, host="127.0.0.1:3777", **fields):
    """The answer to one call; *body* goes as JSON."""
    sent = fields if body is None else {"json": body, **fields}
    (reply,) = call(serving, (method, path, sent), host=host)
    return reply


def get(serving, path, **fields):
    return ask(serving, "GET", path, **fields)


def post(serving, body, path="/api/message", **fields):
    return ask(serving, "POST", path, body, **fields)


@contextlib.asynccontextmanager
async def stream(query="", *, started=None, **headers):
    """Read an event stream live: a queue of its blocks, each a map of its fields.

    *started* gets the first message of the answer.
    """
    queue = asyncio.Queue()
    scope = {"type": "http", "method": "GET", "path": "/api/events/stream", "http_version": "1.1"}
    named = {"host": "127.0.0.1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope["query_string"] = query.encode()
    scope["headers"] = [(name.encode(), value.encode()) for name, value in named.items()]

    async def receive():
        await asyncio.sleep(300)

    async def send(message):
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


async def frames(queue, count):
    """The next *count* frames, as (id or None, name, data)."""
    found = [await asyncio.wait_for(queue.get(), 60) for _ in range(count)]
    return [(block.get("id"), block["event"], json.loads(block["data"])) for block in found]


async def whole(queue, count):
    """The next *count* frames that end a row."""
    found = []
    while len(found) < count:
        found += [frame for frame in await frames(queue, 1) if frame[0] is not None]
    return found
