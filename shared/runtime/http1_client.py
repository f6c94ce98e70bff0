"""``HttpClient``: requests over HTTP/1.1, to the same few hosts.

Before a connection stands, nothing of a request has left this machine; afterwards, everything may have. No request is
repeated, no redirect followed, and no proxy read from the environment.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from shared.core.call_scopes import CallPacing
from shared.runtime.http_client import (
    ANSWER_BYTES,
    AnswerTooLong,
    HttpAnswer,
    RequestNotSent,
    StreamedBody,
)
from shared.runtime.http_connection import HostConnection

CONNECT_LIMIT_S = 5.0
ANSWER_LIMIT_S = 30.0  # for each piece of it; the caller limits the whole
IDLE_LIMIT_S = 5.0  # platforms close idle connections; a request that meets that has an unknown outcome

_ADDRESS_LIMIT_S = 1.0  # for each address of a host but the last: one that nobody answers must not use up the time
_PIECE_BYTES = 64 * 1024
_VISIBLE = re.compile(rb"[!-~]+")
_VALUE = re.compile(rb"[^\0\r\n]*")


class _Host(NamedTuple):
    scheme: str
    name: str
    port: int


class _Address(NamedTuple):
    host: _Host
    target: bytes
    authority: bytes


class HttpClient:
    """See ``Client``. Connections stay open for the next request to the same host; two requests never share one."""

    def __init__(
        self,
        *,
        answer_limit_s: float = ANSWER_LIMIT_S,
        idle_limit_s: float = IDLE_LIMIT_S,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        self.pacing: CallPacing | None = None
        self._answer_limit_s = answer_limit_s
        self._idle_limit_s = idle_limit_s
        self._trusted = trusted
        self._idle: dict[_Host, list[tuple[float, HostConnection]]] = {}
        self._at_work: set[HostConnection] = set()

    async def request(
        self,
        method: str,
        url: str,
        body: bytes | StreamedBody,
        headers: Mapping[str, str],
        *,
        limit_bytes: int = ANSWER_BYTES,
    ) -> HttpAnswer:
        try:
            typed = {} if isinstance(body, bytes) else {"Content-Type": body.content_type}
            lines = [(name.encode("ascii"), value.encode("ascii")) for name, value in {**typed, **headers}.items()]
        except UnicodeEncodeError as error:
            raise RequestNotSent(type(error).__name__) from None
        async with self.stream(method, url, body, lines) as answer:
            return HttpAnswer(answer.status, await whole(answer, limit_bytes), readable(answer.headers))

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        body: bytes | StreamedBody,
        headers: Iterable[tuple[bytes, bytes]],
        *,
        silence_s: float | None = None,
    ) -> AsyncIterator[HostConnection]:
        """Send the request once; the head of its answer is there, the body is to be read.

        Args:
            silence_s: the host may take so long for each piece; None: the client's limit.

        Raises:
            RequestNotSent: there was no connection to send it over.
            NoAnswer: the request may have been carried out.
        """
        length = len(body) if isinstance(body, bytes) else body.size
        host, head = _head(method, url, [(b"Content-Length", b"%d" % length), *headers])
        connection = self._kept(host) or await self._connect(host)
        self._at_work.add(connection)
        connection.begin(self._answer_limit_s if silence_s is None else silence_s)
        try:
            await _send(connection, head, body)
            await connection.head()
            yield connection
        finally:
            self._at_work.discard(connection)
            if connection.is_idle():
                self._keep(host, connection)
            else:
                connection.abort()

    async def close(self) -> None:
        for kept in self._idle.values():
            self._at_work.update(connection for _, connection in kept)
        for connection in list(self._at_work):
            connection.abort()
        self._idle.clear()

    def _kept(self, host: _Host) -> HostConnection | None:
        """The connection that was used last, if it is any good."""
        now_s = asyncio.get_running_loop().time()
        kept = self._idle.get(host, [])
        while kept:
            until_s, connection = kept.pop()
            if until_s > now_s and connection.is_idle():
                return connection
            connection.abort()
        return None

    def _keep(self, host: _Host, connection: HostConnection) -> None:
        now_s = asyncio.get_running_loop().time()
        kept = self._idle.setdefault(host, [])
        while kept and kept[0][0] <= now_s:
            kept.pop(0)[1].abort()
        kept.append((now_s + self._idle_limit_s, connection))

    async def _connect(self, host: _Host) -> HostConnection:
        try:
            async with asyncio.timeout(CONNECT_LIMIT_S):
                return await _open_connection(host, await self._trust() if host.scheme == "https" else None)
        except (OSError, ValueError) as error:  # TimeoutError, those of TLS and of the search for the name too
            raise RequestNotSent(type(error).__name__) from None

    async def _trust(self) -> ssl.SSLContext:
        """Made on first use, in a thread: it takes 30 ms and 3 MB, which plain HTTP does not need."""
        if self._trusted is None:
            self._trusted = await asyncio.to_thread(_trust_of_browsers)
        return self._trusted


def _trust_of_browsers() -> ssl.SSLContext:
    import certifi  # plain HTTP needs no certificates

    trusted = ssl.create_default_context()
    trusted.load_verify_locations(certifi.where())  # the machine may have none
    return trusted


def readable(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers as text, with lower-case names; of one that comes twice, the last."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


async def whole(answer: HostConnection, limit_bytes: int = ANSWER_BYTES) -> bytes:
    """The body.

    Raises:
        NoAnswer: it ends before its end, or has more than *limit_bytes*.
    """
    too_long = AnswerTooLong(f"the answer is longer than {limit_bytes} bytes")
    promised = next((int(value) for name, value in answer.headers if name.lower() == b"content-length"), 0)
    if promised > limit_bytes:
        raise too_long
    body = bytearray()
    async with aclosing(answer.pieces()) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > limit_bytes:
                raise too_long
    return bytes(body)


async def _open_connection(host: _Host, trust: ssl.SSLContext | None) -> HostConnection:
    """A connection to the first address of the host that takes one."""
    loop = asyncio.get_running_loop()
    addresses = [str(each[4][0]) for each in await loop.getaddrinfo(host.name, host.port, type=socket.SOCK_STREAM)]
    name = host.name if trust is not None else None
    for address in addresses[:-1]:
        try:
            async with asyncio.timeout(_ADDRESS_LIMIT_S):
                return (
                    await loop.create_connection(HostConnection, address, host.port, ssl=trust, server_hostname=name)
                )[1]
        except OSError:
            continue
    return (await loop.create_connection(HostConnection, addresses[-1], host.port, ssl=trust, server_hostname=name))[1]


def _head(method: str, url: str, headers: list[tuple[bytes, bytes]]) -> tuple[_Host, bytes]:
    """Where the request goes, and its first lines.

    Raises:
        RequestNotSent: the address or a header is invalid.
    """
    try:
        address = _address(url)
        words = [method.encode("ascii"), address.target, address.authority]
    except (KeyError, ValueError) as error:
        raise RequestNotSent(type(error).__name__) from None
    names, values = zip(*headers, strict=True)
    visible = [*words, *names]
    if not (all(visible) and _VISIBLE.fullmatch(b"".join(visible)) and _VALUE.fullmatch(b"".join(values))):
        raise RequestNotSent("the address or a header is invalid")
    lines = [b"%s %s HTTP/1.1" % (words[0], words[1]), b"Host: " + words[2]]
    return address.host, b"\r\n".join([*lines, *(b"%s: %s" % each for each in headers), b"", b""])


@lru_cache(maxsize=64)
def _address(url: str) -> _Address:
    """The parts of an address: most requests go where others went.

    Raises:
        KeyError: its scheme is unknown.
        ValueError: it can't be read, or is not ASCII.
    """
    parts = urlsplit(url)
    host = _Host(parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme])
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return _Address(host, target.encode("ascii"), parts.netloc.rpartition("@")[2].encode("ascii"))


async def _send(connection: HostConnection, head: bytes, body: bytes | StreamedBody) -> None:
    """A short request goes out in one piece, for each wakes the host; a long one in several, between which others run.

    A host may answer before the end of it.
    """
    if isinstance(body, bytes) and len(body) <= _PIECE_BYTES:
        await connection.write(head + body)
        return
    kept = head
    async with aclosing(_pieces(body) if isinstance(body, bytes) else body.pieces()) as pieces:
        async for piece in pieces:
            kept += piece
            if len(kept) >= _PIECE_BYTES:
                if not await connection.write(kept):
                    return
                kept = b""
                await asyncio.sleep(0)
    if kept:
        await connection.write(kept)


async def _pieces(body: bytes) -> AsyncGenerator[bytes]:
    for start in range(0, len(body), _PIECE_BYTES):
        yield body[start : start + _PIECE_BYTES]
