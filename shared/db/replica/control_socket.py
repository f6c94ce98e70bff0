"""Litestream's control socket: HTTP over a Unix socket. A single question, or one after the other for many callers.

This is not ``HttpClient``: ``ingest`` asks before each acknowledgement, and is told as soon as the answer is read, and
not a turn of the event loop later. It stands below the room of that client, too.

Source: https://litestream.io/reference/ipc/
"""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

import httptools
import msgspec

NO_ANSWER = (OSError, TimeoutError, httptools.HttpParserError)
_REASON_CHARACTERS = 300


class Positions(msgspec.Struct):
    """Litestream's answer to ``/sync``: the positions of the database and of the replica."""

    txid: int
    replicated_txid: int = 0


def sync_request(database: Path, limit_s: float, *, wait: bool) -> bytes:
    """Have what is committed so far taken from the log and, with *wait*, brought to the replica.

    Args:
        database: absolute, as Litestream calls it.
    """
    body = msgspec.json.encode({"path": str(database), "wait": wait, "timeout": math.ceil(limit_s)})
    head = "POST /sync HTTP/1.1\r\nHost: litestream\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return (head % len(body)).encode() + body


def read_positions(status: int, body: bytes) -> tuple[Positions | None, str]:
    """Litestream's answer, if it is a position; and its text. Pure."""
    try:
        found = msgspec.json.decode(body, type=Positions) if status == 200 else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    return found, body.decode("utf-8", "replace").strip()[:_REASON_CHARACTERS] or f"status {status}"


def no_answer(socket: Path, error: Exception) -> str:
    """The sentence for one of ``NO_ANSWER``."""
    return f"Litestream does not answer at {socket} ({type(error).__name__}): does infra.replicate run?"


def too_slow(limit_s: float) -> str:
    """The sentence for an answer that did not come in time."""
    return (
        f"Litestream did not answer within {limit_s:g} s: it hangs, or the bucket is slow. infra.replicate restarts "
        f"one that hangs; `emulator replica status` says which it is"
    )


async def ask(socket: Path, request: bytes) -> tuple[int, bytes]:
    """Status and body of the answer, over a connection of its own.

    Raises:
        One of ``NO_ANSWER``.
    """
    answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

    def on_answer(_: Connection, status: int, body: bytes) -> None:
        answer.set_result((status, body))

    def on_lost(_: Connection, error: Exception) -> None:
        if not answer.done():
            answer.set_exception(error)

    connection = await connect(socket, on_answer, on_lost)
    try:
        connection.send(request)
        return await answer
    finally:
        connection.close()


async def connect(
    socket: Path,
    on_answer: Callable[["Connection", int, bytes], None],
    on_lost: Callable[["Connection", Exception], None],
) -> "Connection":
    """A connection to Litestream.

    Raises:
        One of ``NO_ANSWER``.
    """
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_unix_connection(lambda: Connection(on_answer, on_lost), str(socket))
    return connection


class Connection(asyncio.Protocol):
    """One connection, for one question at a time.

    Args:
        on_answer: called with the status and the body as soon as they are read, and not a turn of the event loop later.
        on_lost: called when the other side has closed it, or answers what can't be read.
    """

    def __init__(
        self,
        on_answer: Callable[["Connection", int, bytes], None],
        on_lost: Callable[["Connection", Exception], None],
    ) -> None:
        self.answers = 0
        self._on_answer = on_answer
        self._on_lost = on_lost
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._transport: asyncio.Transport | None = None

    def send(self, request: bytes) -> None:
        """Ask; where the connection is lost already, the next turn of the event loop says so."""
        self._parser = httptools.HttpResponseParser(self)
        self._body.clear()
        if self._transport is not None:
            self._transport.write(request)
        else:
            asyncio.get_running_loop().call_soon(self._on_lost, self, ConnectionResetError())

    def close(self) -> None:
        """Neither callback is called any more."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # of a stream

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.connection_lost(error)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self.close()
            self._on_lost(self, exc or ConnectionResetError())

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.answers += 1
        if self._transport is not None:
            self._on_answer(self, self._parser.get_status_code(), bytes(self._body))
