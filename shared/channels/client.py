"""The connections to the platforms: HTTP/1.1, JSON out and a short answer back, to the same few hosts all the time.

A caller has to know one thing after a failure: whether anything of the request left this machine. Nothing has before
the connection stands; from the first write on everything may have. No request is repeated here. Neither environment
nor answer leads a request elsewhere: there are no proxies and no redirects.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Mapping
from functools import cached_property
from urllib.parse import SplitResult, urlsplit

import certifi
import httptools

from shared.channels.http import NeverLeft, NoAnswer

CONNECT_LIMIT_S = 5.0
ADDRESS_LIMIT_S = 2.0  # for one of a host's addresses: where its network is a black hole, the next may do
ANSWER_LIMIT_S = 30.0
IDLE_LIMIT_S = 5.0  # platforms close idle connections; a request that crosses that on its way has no outcome
ANSWER_BYTES = 1 << 20

_PRINTABLE = re.compile(r"[!-~]+")
_HEADER = re.compile(r"[ -~]*")

Place = tuple[str, str, int]  # scheme, host and port


class HttpClient:
    """See ``http.Client``. Connections are kept for the next request to the same place, and a request has its own."""

    def __init__(self, *, answer_limit_s: float = ANSWER_LIMIT_S, trusted: ssl.SSLContext | None = None) -> None:
        self._answer_limit_s = answer_limit_s
        self._trusted = trusted
        self._idle: dict[Place, list[_Connection]] = {}
        self._open: set[_Connection] = set()

    async def request(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        place, message = _written(method, urlsplit(url), body, headers)
        connection = self._kept(place) or await self._made(place)
        try:
            answer = await connection.exchange(message, self._answer_limit_s)
        except BaseException:  # also when whoever asked does not wait any more: the answer is on its way to nobody
            connection.close()
            raise
        if connection.is_reusable:
            connection.expire_after(IDLE_LIMIT_S)
            self._idle[place].append(connection)
        else:
            connection.close()
        return answer

    def close(self) -> None:
        for connection in list(self._open):
            connection.close()

    def _kept(self, place: Place) -> "_Connection | None":
        idle = self._idle.setdefault(place, [])
        while idle:
            if (connection := idle.pop()).is_reusable:
                return connection
        return None

    async def _made(self, place: Place) -> "_Connection":
        """A new connection, by the first address that has one."""
        scheme, host, port = place
        problem: Exception = OSError()
        try:
            async with asyncio.timeout(CONNECT_LIMIT_S):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
                for _, _, _, _, address in sorted(found, key=lambda each: each[0] != socket.AF_INET):
                    try:
                        return await self._connected(str(address[0]), port, host if scheme == "https" else None)
                    except OSError as error:
                        problem = error
        except (OSError, UnicodeError) as error:  # a timeout is an OSError, a name that is none not
            problem = error
        raise NeverLeft(type(problem).__name__)

    async def _connected(self, address: str, port: int, server_name: str | None) -> "_Connection":
        async with asyncio.timeout(ADDRESS_LIMIT_S):
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: _Connection(self._open),
                address,
                port,
                ssl=self._tls if server_name else None,
                server_hostname=server_name,
            )
        return connection

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Made when it is needed: to read what everybody trusts takes 20 ms and 3 MB."""
        return self._trusted or ssl.create_default_context(cafile=certifi.where())


class _Connection(asyncio.Protocol):
    """One connection, with one request on it at a time."""

    def __init__(self, among: "set[_Connection]") -> None:
        self._among = among
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._body = bytearray()
        self._says_its_end = False
        self._is_in_body = False
        self._keeps_on = True
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def is_reusable(self) -> bool:
        """Another request may follow an answer."""
        return self._keeps_on and not self._transport.is_closing()

    async def exchange(self, message: bytes, limit_s: float) -> tuple[int, bytes]:
        """Send *message*; status and body of its answer.

        Raises:
            NoAnswer: it may have arrived all the same.
        """
        if self._expiry is not None:
            self._expiry.cancel()
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(message)
        try:
            async with asyncio.timeout(limit_s):
                return await self._answer
        except TimeoutError:
            raise NoAnswer(f"not within {limit_s:g} s") from None

    def expire_after(self, seconds: float) -> None:
        self._expiry = asyncio.get_running_loop().call_later(seconds, self.close)

    def close(self) -> None:
        self._fail("the connection was closed")
        self._transport.abort()

    # -- called by the event loop ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._among.add(self)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():  # nobody asked: a farewell, such as 408
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail("what came is not HTTP")

    def connection_lost(self, error: Exception | None) -> None:
        self._among.discard(self)
        if self._expiry is not None:
            self._expiry.cancel()
        if self._is_in_body and not self._says_its_end and error is None:
            self._finish()
        self._fail(type(error).__name__ if error else "the connection was closed")

    # -- called by the parser --------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._body.clear()
        self._says_its_end = self._is_in_body = False
        if self._answer is None or self._answer.done():  # more than was asked for
            self._keeps_on = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._says_its_end = self._says_its_end or name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self._is_in_body = True

    def on_body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > ANSWER_BYTES:
            self._fail(f"its answer is longer than {ANSWER_BYTES} bytes")

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() >= 200:  # what comes before, as 100, only says that more comes
            self._keeps_on = self._keeps_on and self._parser.should_keep_alive()
            self._finish()
        self._is_in_body = False

    def _finish(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), bytes(self._body)))

    def _fail(self, reason: str) -> None:
        self._keeps_on = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(NoAnswer(reason))


def _written(method: str, url: SplitResult, body: bytes, headers: Mapping[str, str]) -> tuple[Place, bytes]:
    """Where to, and the request as it goes over the wire.

    Raises:
        NeverLeft: the address or a header is nothing that HTTP can say.
    """
    target = f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
    host = url.netloc.rpartition("@")[2]
    try:
        port = url.port or {"http": 80, "https": 443}[url.scheme]
    except (KeyError, ValueError):
        raise NeverLeft("its address is no http:// or https:// one") from None
    if not (url.hostname and _PRINTABLE.fullmatch(host) and _PRINTABLE.fullmatch(target)):
        raise NeverLeft("its address has characters that no address has")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if not all(_HEADER.fullmatch(line) for line in lines):
        raise NeverLeft("a header has characters that no header has")
    return (url.scheme, url.hostname, port), "\r\n".join([*lines, "", ""]).encode("ascii") + body
