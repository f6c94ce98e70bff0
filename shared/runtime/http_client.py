"""HTTP requests, by httpcore: a small body out and a short answer back, to the same few hosts all the time.

A caller has to know one thing after a failure: whether anything of the request left this machine. Nothing has before
the connection stands; from then on everything may have. httpcore repeats no request, and neither environment nor answer
leads one elsewhere: there are no proxies and no redirects.
"""

import ssl
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlsplit

import httpcore

CONNECT_LIMIT_S = 5.0
ANSWER_LIMIT_S = 30.0  # for each piece of it; whoever asks limits the whole
IDLE_LIMIT_S = 5.0  # platforms close idle connections; a request that crosses that on its way has no outcome
ANSWER_BYTES = 1 << 20

_NEVER_LEFT = (
    *(httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.UnsupportedProtocol),
    *(httpcore.LocalProtocolError, ValueError),  # an address or a header that is none
)
_NO_ANSWER = (httpcore.NetworkError, httpcore.RemoteProtocolError, httpcore.TimeoutException)


class RequestNotSent(Exception):
    """Nothing of the request left this machine; the message says why, in words without its address."""


class NoAnswer(Exception):
    """It left, at least in part, and no whole answer came back; the message says why, without its address."""


class Client(Protocol):
    """What sends requests: ``HttpClient``, or a platform that a test plays."""

    async def request(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Send it once; status and body of the answer.

        Raises:
            RequestNotSent: there was no connection to send it by.
            NoAnswer: it may have been carried out.
        """

    async def close(self) -> None:
        """Break off what is under way."""


class HttpClient:
    """See ``Client``. Connections are kept for the next request to the same place, and a request has its own."""

    def __init__(
        self,
        *,
        answer_limit_s: float = ANSWER_LIMIT_S,
        idle_limit_s: float = IDLE_LIMIT_S,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        self._limits = {"connect": CONNECT_LIMIT_S, "read": answer_limit_s, "write": answer_limit_s}
        self._idle_limit_s = idle_limit_s
        self._trusted = trusted
        self._pools: dict[str, httpcore.AsyncConnectionPool] = {}

    async def request(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        try:
            address = urlsplit(url)
            lines = {"Host": address.netloc, "Content-Length": str(len(body)), **headers}
            async with self._pool(address.scheme).stream(
                method,
                url.encode("ascii"),
                headers=[(name.encode("ascii"), value.encode("ascii")) for name, value in lines.items()],
                content=body,
                extensions={"timeout": self._limits},
            ) as answer:
                return answer.status, await _whole(answer)
        except _NEVER_LEFT as error:
            raise RequestNotSent(type(error).__name__) from None
        except _NO_ANSWER as error:
            raise NoAnswer(type(error).__name__) from None

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()

    def _pool(self, scheme: str) -> httpcore.AsyncConnectionPool:
        """Made when it is needed: to read what everybody trusts takes 20 ms and 3 MB, and plain HTTP needs none."""
        if scheme not in self._pools:
            trusted = (self._trusted or httpcore.default_ssl_context()) if scheme == "https" else None
            self._pools[scheme] = httpcore.AsyncConnectionPool(
                trusted, max_connections=None, keepalive_expiry=self._idle_limit_s
            )
        return self._pools[scheme]


async def _whole(answer: httpcore.Response) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_stream():
        body += piece
        if len(body) > ANSWER_BYTES:
            raise NoAnswer(f"its answer is longer than {ANSWER_BYTES} bytes")
    return bytes(body)
