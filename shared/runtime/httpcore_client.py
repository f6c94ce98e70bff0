"""``HttpClient``: requests by httpcore, to the same few hosts.

Before a connection stands, nothing of a request has left this machine; afterwards, everything may have. httpcore
repeats no request, follows no redirect, and reads no proxy from the environment.
"""

import contextlib
import ssl
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import urlsplit

import httpcore

from shared.core.call_scopes import CallPacing
from shared.runtime.http_client import (
    ANSWER_BYTES,
    AnswerTooLong,
    HttpAnswer,
    NoAnswer,
    RequestNotSent,
    StreamedBody,
)
from shared.runtime.whole_requests import WholeRequests

CONNECT_LIMIT_S = 5.0
ANSWER_LIMIT_S = 30.0  # for each piece of it; the caller limits the whole
IDLE_LIMIT_S = 5.0  # platforms close idle connections; a request that meets that has an unknown outcome

_NEVER_LEFT = (
    *(httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.UnsupportedProtocol),
    *(httpcore.LocalProtocolError, ValueError),  # an invalid address or header
)
_NO_ANSWER = (httpcore.NetworkError, httpcore.RemoteProtocolError, httpcore.TimeoutException)


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
        self._limits = {"connect": CONNECT_LIMIT_S, "read": answer_limit_s, "write": answer_limit_s}
        self._idle_limit_s = idle_limit_s
        self._trusted = trusted
        self._pools: dict[str, httpcore.AsyncConnectionPool] = {}

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
            if isinstance(body, bytes):
                return await self._request(
                    method, url, body, {"Content-Length": str(len(body)), **headers}, limit_bytes
                )
            lines = {"Content-Length": str(body.size), "Content-Type": body.content_type, **headers}
            async with contextlib.aclosing(body.pieces()) as pieces:
                return await self._request(method, url, pieces, lines, limit_bytes)
        except _NEVER_LEFT as error:
            raise RequestNotSent(type(error).__name__) from None
        except _NO_ANSWER as error:
            raise NoAnswer(type(error).__name__) from None

    async def _request(
        self,
        method: str,
        url: str,
        body: bytes | AsyncGenerator[bytes],
        headers: Mapping[str, str],
        limit_bytes: int,
    ) -> HttpAnswer:
        address = urlsplit(url)
        lines = {"Host": address.netloc, **headers}
        async with self._pool(address.scheme).stream(
            method,
            url.encode("ascii"),
            headers=[(name.encode("ascii"), value.encode("ascii")) for name, value in lines.items()],
            content=body,
            extensions={"timeout": self._limits},
        ) as answer:
            return HttpAnswer(answer.status, await _whole(answer, limit_bytes), _readable(answer.headers))

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()

    def _pool(self, scheme: str) -> httpcore.AsyncConnectionPool:
        """Made on first use: reading the trusted certificates takes 20 ms and 3 MB, which plain HTTP does not need."""
        if scheme not in self._pools:
            trusted = (self._trusted or httpcore.default_ssl_context()) if scheme == "https" else None
            self._pools[scheme] = httpcore.AsyncConnectionPool(
                trusted,
                max_connections=None,
                keepalive_expiry=self._idle_limit_s,
                network_backend=WholeRequests(),
            )
        return self._pools[scheme]


def _readable(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


async def _whole(answer: httpcore.Response, limit_bytes: int) -> bytes:
    too_long = AnswerTooLong(f"the answer is longer than {limit_bytes} bytes")
    if _promised_bytes(answer) > limit_bytes:
        raise too_long
    body = bytearray()
    async for piece in answer.aiter_stream():
        body += piece
        if len(body) > limit_bytes:
            raise too_long
    return bytes(body)


def _promised_bytes(answer: httpcore.Response) -> int:
    """What the answer says of its length; 0 where it says nothing."""
    return next((int(value) for name, value in answer.headers if name.lower() == b"content-length"), 0)
