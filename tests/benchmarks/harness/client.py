"""A cheap HTTP client with keep-alive: it shares the machine with the system that it measures."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httptools

from tests.benchmarks.harness.system import SECRET

_LIMIT_S = 60.0


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self._answered: asyncio.Future[int] | None = None
        self._body = b""
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None

    async def send(self, request: bytes) -> int:
        """The status of the answer; ``body`` holds its body."""
        if self._transport is None:
            raise ConnectionError("not connected")
        self._answered = asyncio.get_running_loop().create_future()
        self._body = b""
        self._transport.write(request)
        return await self._answered

    @property
    def body(self) -> bytes:
        return self._body

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # of TCP

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error or ConnectionError("closed by the server"))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        self._parser = httptools.HttpResponseParser(self)
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(status)


@contextlib.asynccontextmanager
async def connections(port: int, count: int) -> AsyncIterator[list[Connection]]:
    """*count* connections to one port."""
    loop = asyncio.get_running_loop()
    made = [(await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(count)]
    try:
        yield made
    finally:
        for each in made:
            each.close()


def get(path: str) -> bytes:
    """A GET."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def post(path: str, fields: Mapping[str, Any], token: str = "") -> bytes:
    """A POST of JSON, with the API's token."""
    body = json.dumps(fields).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def webhook(number: int, chat: int, text: str) -> bytes:
    """A POST as Telegram sends it: message *number* of the person whose chat is *chat*."""
    update = {
        "update_id": number,
        "message": {
            "message_id": number,
            "date": int(time.time()),  # an old one costs a look at when the database began
            "chat": {"id": chat, "type": "private", "first_name": "Ana"},
            "from": {"id": chat, "is_bot": False, "first_name": "Ana"},
            "text": text,
        },
    }
    body = json.dumps(update).encode()
    head = (
        "POST /webhooks/telegram HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"X-Telegram-Bot-Api-Secret-Token: {SECRET}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(frozen=True, slots=True)
class Load:
    """Requests a second, and the milliseconds of each."""

    rate: float
    times: list[float]


async def load(port: int, concurrency: int, seconds: float, request: Callable[[], bytes]) -> Load:
    """Run *concurrency* clients; each sends its next request after the last answer.

    Raises:
        RuntimeError: an answer was not 200.
    """
    times: list[float] = []
    begin = time.perf_counter()
    end = begin + seconds

    async def client(connection: Connection) -> None:
        while (start := time.perf_counter()) < end:
            status = await connection.send(request())
            if status != 200:
                raise RuntimeError(f"answered {status}: {connection.body[:300]!r}")
            times.append((time.perf_counter() - start) * 1000)

    async with asyncio.timeout(seconds + _LIMIT_S), connections(port, concurrency) as made:
        await asyncio.gather(*(client(each) for each in made))
    return Load(len(times) / (time.perf_counter() - begin), times)
