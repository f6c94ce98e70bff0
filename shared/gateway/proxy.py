"""Passes the model requests of programs on to the hosts of models, with our key in place of the program's token.

Nothing else of a request changes, but that a streamed chat request asks for its counts. Answers are passed on as they
come; they are counted, and not kept. An error is read whole, because a host may repeat a key in it.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from starlette.types import Receive, Scope, Send
from yarl import URL

from shared.core import clock, logs, redaction
from shared.gateway import dialects
from shared.gateway.ledger import Ledger
from shared.gateway.meter import BodyMeter, Meter, StreamMeter
from shared.gateway.server import CLOSE
from shared.gateway.tokens import ProgramTurn, Refusal, TokenBook
from shared.gateway.upstreams import Route

log = logs.get()

MOST_BYTES = 64 * 1024 * 1024  # of a request
LONGEST_RETRY_S = 20.0  # codex and opencode wait in silence for as long as retry-after says
_CONNECT_S = 10.0
_SILENCE_S = 600.0  # of a host in the middle of an answer; the limits of a turn are shorter
_ERROR_BYTES = 1024 * 1024
_LONGEST_NAME = 200  # characters of a model's name
_HOP = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
}  # fmt: skip
_NOT_SENT = _HOP | {
    b"host",
    b"content-length",
    b"accept-encoding",
    b"authorization",
    b"x-api-key",
    b"cookie",
    b"expect",
}
_NOT_RETURNED = _HOP | {b"content-length", b"content-encoding", b"set-cookie", b"retry-after", b"retry-after-ms"}

Headers = list[tuple[bytes, bytes]]


class _Answered(Exception):
    """The request is refused: the status and the body of the answer."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


class ModelProxy:
    """The ASGI application for ``/anthropic``, ``/openai`` and ``/local``."""

    def __init__(self, book: TokenBook, routes: Mapping[tuple[str, str], Route], ledger: Ledger) -> None:
        self._book = book
        self._routes = routes
        self._ledger = ledger
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections to the hosts."""
        if self._session is not None:
            await self._session.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. When its program goes away or its turn ends, the host's answer is cut off too."""
        try:
            route, turn = self._admitted(scope)
            body = await _body(receive)
        except _Answered as refused:
            await _answer(send, refused.status, refused.body)
            return
        if body is None:
            return
        work = asyncio.ensure_future(_Exchange(self, route, turn, scope, send).run(body))
        turn.requests.add(work)
        try:
            is_whole = await _unless_gone(work, receive)
        finally:
            turn.requests.discard(work)
        if not is_whole:
            await _close(scope, receive)

    @property
    def session(self) -> aiohttp.ClientSession:
        """The client, made with the first request. It follows no redirect, keeps no cookie and asks no proxy."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S),
                skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            )
        return self._session

    @property
    def ledger(self) -> Ledger:
        """What agents have spent."""
        return self._ledger

    def _admitted(self, scope: Scope) -> tuple[Route, ProgramTurn]:
        """Where the request goes, and the turn that makes it.

        Raises:
            _Answered: the token is no token of ours, its program runs no turn, or this is no request for its model.
        """
        token = _token(scope["headers"])
        route = self._routes.get((scope["method"], scope["path"]))
        if not self._book.knows(token):
            raise _Answered(401, _error("this is no token of a program that Postroom runs"))
        turn = self._book.turn(token)
        if turn is None:
            raise _between_turns(route)
        if route is None:
            raise _Answered(404, _error("the gateway passes on requests to models only, and only where a key is set"))
        if route.upstream.name != (used := self._book.upstream(token)):
            raise _Answered(404, _error(f"this program uses {used or 'no models'}, not {route.upstream.name}"))
        return route, turn


class _Exchange:
    """One request and its answer."""

    def __init__(self, proxy: ModelProxy, route: Route, turn: ProgramTurn, scope: Scope, send: Send) -> None:
        self._proxy = proxy
        self._route = route
        self._turn = turn
        self._scope = scope
        self._send = send

    async def run(self, body: bytes) -> bool:
        """Whether the program got a whole answer; otherwise its connection is to be closed."""
        dialect, paid_by = self._route.dialect, self._route.upstream.paid_by
        request = dialects.parsed(body) if dialect is not None else {}
        model = str(request.get("model", ""))[:_LONGEST_NAME]
        if dialect is not None:
            refusal = await self._proxy.ledger.admit(self._turn.name.agent, model, paid_by, now_ms=clock.now_ms())
            if refusal is not None:
                self._tell(refusal)
                await _answer(self._send, dialect.refusal_status, dialect.refusal(refusal.sentence))
                return True
            if isinstance(dialect, dialects.ChatDialect) and (asking := dialects.with_usage(request)):
                body = json.dumps(asking).encode()
        try:
            async with self._request(body) as answer:
                if answer.status >= 400:
                    return await self._pass_error(answer)
                return await self._pass(answer, model, len(body))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._tell(Refusal("unreachable", f"{self._route.upstream.name} can't be reached ({type(error).__name__})"))
            await _answer(self._send, 502, _error("the model's host can't be reached at the moment"))
            return True

    def _request(self, body: bytes) -> Any:
        query = self._scope["query_string"].decode("ascii", "replace")
        url = URL(self._route.url + (f"?{query}" if query else ""), encoded=True)
        headers = _sent(self._scope["headers"], self._route)
        return self._proxy.session.request(
            self._scope["method"], url, data=body or None, headers=headers, allow_redirects=False
        )

    async def _pass(self, answer: aiohttp.ClientResponse, model: str, request_bytes: int) -> bool:
        """Pass the answer on as it comes, and write what it used, however it ends."""
        meter = _meter(answer, self._route, request_bytes)
        is_whole = False
        try:
            await _start(self._send, answer.status, _returned(answer))
            async for chunk in answer.content.iter_any():
                if meter is not None:
                    meter.feed(chunk)
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
            if meter is not None:
                meter.end()
            is_whole = meter is None or meter.is_complete
        except (aiohttp.ClientError, TimeoutError, OSError):
            is_whole = False
        finally:
            if meter is not None:
                await asyncio.shield(self._record(model, meter))
        if is_whole:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            self._turn.on_refusal(None)
        else:
            self._tell(Refusal("cut", f"the answer of {self._route.upstream.name} ended before its last event"))
        return is_whole

    async def _record(self, model: str, meter: Meter) -> None:
        name, paid_by = self._turn.name, self._route.upstream.paid_by
        try:
            await self._proxy.ledger.record(name, model, paid_by, meter.tokens(), now_ms=clock.now_ms())
        except Exception:  # the answer is there: a database that is locked must not take it away
            log.exception("gateway.usage_not_written", turn=name.turn)

    async def _pass_error(self, answer: aiohttp.ClientResponse) -> bool:
        text = redaction.redact((await answer.content.read(_ERROR_BYTES)).decode("utf-8", "replace")).encode()
        self._tell(_refusal(self._route.upstream.name, answer.status, answer.headers, now_ms=clock.now_ms()))
        headers = [*_returned(answer), *_retry_after(answer.headers), _length(text)]
        await _start(self._send, answer.status, headers)
        await self._send({"type": "http.response.body", "body": text, "more_body": False})
        return True

    def _tell(self, refusal: Refusal | None) -> None:
        if refusal is None:
            return
        log.warning("gateway.refused", turn=self._turn.name.turn, why=refusal.reason, sentence=refusal.sentence)
        self._turn.on_refusal(refusal)


def _refusal(upstream: str, status: int, headers: Mapping[str, str], *, now_ms: int) -> Refusal | None:
    """What an error of the host means for the turn; None: it is about this one request."""
    waits_s = _seconds(headers)
    until_ms = None if waits_s is None else now_ms + round(waits_s * 1000)
    if status == 429:
        return Refusal("rate_limited", f"{upstream} answered 429: too many requests, or the plan is used up", until_ms)
    if status in (401, 403):
        return Refusal("login_refused", f"{upstream} answered {status}: it does not accept our key or login")
    if status >= 500:
        return Refusal("overloaded", f"{upstream} answered {status}", until_ms)
    return None


def _seconds(headers: Mapping[str, str]) -> float | None:
    try:
        waits = float(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return waits if 0 <= waits < 10**8 else None


def _retry_after(headers: Mapping[str, str]) -> Headers:
    """The header for the program: left out where it is longer than a program should wait in silence."""
    waits_s = _seconds(headers)
    return [] if waits_s is None or waits_s > LONGEST_RETRY_S else [(b"retry-after", headers["retry-after"].encode())]


def _token(headers: Headers) -> str:
    known = dict(headers)
    given = known.get(b"x-api-key") or known.get(b"authorization", b"")
    return given.removeprefix(b"Bearer ").decode("latin-1")


def _sent(headers: Headers, route: Route) -> list[tuple[str, str]]:
    """The program's headers, with our key in place of its token."""
    kept = [(name, value) for name, value in headers if name not in _NOT_SENT]
    beta = route.upstream.beta
    if beta is not None and not any(name == b"anthropic-beta" and beta in value for name, value in kept):
        kept.append((b"anthropic-beta", beta))
    sent = [*kept, (b"accept-encoding", b"identity"), *route.upstream.auth]
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in sent]


def _returned(answer: aiohttp.ClientResponse) -> Headers:
    return [(name.lower(), value) for name, value in answer.raw_headers if name.lower() not in _NOT_RETURNED]


def _meter(answer: aiohttp.ClientResponse, route: Route, request_bytes: int) -> Meter | None:
    if route.dialect is None:
        return None
    is_stream = answer.content_type == "text/event-stream"
    return (StreamMeter if is_stream else BodyMeter)(route.dialect, request_bytes)


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None: the program went away.

    Raises:
        _Answered: it is too large.
    """
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > MOST_BYTES:
            raise _Answered(413, _error(f"the request is larger than {MOST_BYTES} bytes"))
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def _unless_gone(work: asyncio.Task[bool], receive: Receive) -> bool:
    """The outcome of *work*; False where it was cut off, because its program went away or its turn ended."""
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        work.cancel()
    try:
        return await work
    except asyncio.CancelledError:
        return False
    except Exception:  # the boundary of one request: the others go on
        log.exception("gateway.request_failed")
        return False


async def _gone(receive: Receive) -> None:
    """Return when the program has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        continue


async def _close(scope: Scope, receive: Receive) -> None:
    """Close the connection in the middle of the answer: a clean end would look like a whole one."""
    close: Callable[[], None] | None = scope.get(CLOSE)
    if close is not None:
        close()
        await _gone(receive)


async def _start(send: Send, status: int, headers: Headers) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _answer(send: Send, status: int, body: Mapping[str, Any]) -> None:
    text = json.dumps(body).encode()
    await _start(send, status, [(b"content-type", b"application/json"), _length(text)])
    await send({"type": "http.response.body", "body": text, "more_body": False})


def _length(body: bytes) -> tuple[bytes, bytes]:
    return (b"content-length", str(len(body)).encode())


def _between_turns(route: Route | None) -> _Answered:
    """The refusal of a program that runs no turn: not a 401, which would look like a lost login."""
    sentence = "no turn runs: the token is good only during a turn"
    if route is None or route.dialect is None:
        return _Answered(402, _error(sentence))
    return _Answered(route.dialect.refusal_status, route.dialect.refusal(sentence))


def _error(sentence: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": f"Postroom's gateway: {sentence}"}}
