"""Passes the model requests of programs on to the hosts of models, with our key in place of the program's token.

Nothing else of a request changes, but that a streamed chat request asks for its counts, and a compressed body is sent
plain. Answers are passed on as they come; they are counted, and not kept. An error is read whole, because a host may
repeat a key in it.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import apsw
from starlette.types import Receive, Scope, Send

from shared.core import logs
from shared.core.text import redaction
from shared.core.time import clock
from shared.db.spending.usage import Tokens
from shared.runtime.http1_client import HttpClient, readable
from shared.runtime.http_client import NoAnswer, RequestNotSent
from shared.runtime.http_connection import HostConnection
from shared.turns.gateway import allowed_requests, dialects, headers, host_errors, meter, model_request
from shared.turns.gateway.compression import plain_pieces
from shared.turns.gateway.headers import Headers
from shared.turns.gateway.ledger import Ledger, UnderWay
from shared.turns.gateway.meter import BodyMeter, Meter, StreamMeter
from shared.turns.gateway.model_request import MOST_BYTES, ModelRequest, RequestUnreadable
from shared.turns.gateway.server import CLOSE
from shared.turns.gateway.tokens import ProgramTurn, Refusal, TokenBook
from shared.turns.gateway.upstreams import Route

log = logs.get()

MOST_REQUESTS = 64  # of one turn at once: all of them may go past a budget, each by its own cost
SILENCE_S = 240.0  # of a host, before a stream and in the middle of it
_WHOLE_S = 600.0  # the same where the answer is not streamed: it comes all at once
_ERROR_BYTES = 1024 * 1024


class _Answered(Exception):
    """The request is refused: the status and the body of the answer."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


class ModelProxy:
    """The ASGI application for ``/anthropic``, ``/openai`` and ``/local``.

    Args:
        silence_s: after this time without a byte of a stream, its host counts as gone.
    """

    def __init__(
        self,
        book: TokenBook,
        routes: Mapping[tuple[str, str], Route],
        ledger: Ledger,
        *,
        silence_s: float = SILENCE_S,
    ) -> None:
        self.ledger = ledger
        self._book = book
        self._routes = routes
        self.hosts = HttpClient()
        self._silence_s = silence_s

    async def close(self) -> None:
        """Close the connections to the hosts."""
        await self.hosts.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. When its program goes away or its turn ends, the host's answer is cut off too."""
        try:
            route, turn = self._admitted(scope)
            body = await _body(scope, receive)
            if body is None:
                return
            self._admitted(scope, turn)  # the body may have taken long
            request = _read(scope, route, turn, body)
        except _Answered as refused:
            await _answer(send, refused.status, refused.body)
            return
        except RequestUnreadable as error:
            await _answer(send, error.status, _error(str(error)))
            return
        work = asyncio.create_task(_Exchange(self, route, turn, scope, send).run(request))
        turn.requests.add(work)
        try:
            is_whole = await _run_unless_gone(work, receive)
        finally:
            turn.requests.discard(work)
        if not is_whole:
            await _close(scope, receive)

    def limit_s(self, request: ModelRequest) -> float:
        """How long the host of this request may be silent."""
        return self._silence_s if request.is_stream else _WHOLE_S

    def _admitted(self, scope: Scope, before: ProgramTurn | None = None) -> tuple[Route, ProgramTurn]:
        """Where the request goes, and the turn that makes it.

        Args:
            before: the turn that made it when it began.

        Raises:
            _Answered: the token is no token of ours, its program runs no turn, or this is no request for its model.
        """
        token = headers.token(scope["headers"])
        route = self._routes.get((scope["method"], scope["path"]))
        if not self._book.knows(token):
            raise _Answered(401, _error("this is no token of a program that Postroom runs"))
        turn = self._book.turn(token)
        if turn is None or before not in (None, turn):
            raise _between_turns(route)
        if route is None:
            raise _Answered(404, _error("the gateway passes on requests to models only, and only where a key is set"))
        if route.upstream.name != (used := self._book.upstream(token)):
            raise _Answered(404, _error(f"this program uses {used or 'no models'}, not {route.upstream.name}"))
        if len(turn.requests) >= MOST_REQUESTS:
            raise _Answered(429, _error(f"{MOST_REQUESTS} requests of this turn run at once already"))
        return route, turn


def _read(scope: Scope, route: Route, turn: ProgramTurn, body: bytes) -> ModelRequest:
    """The request, which may go on.

    Raises:
        RequestUnreadable: it can't be read.
        _Answered: the agent's config does not allow what it asks.
    """
    if route.rules is None:
        return ModelRequest("", False, {}, b"")
    request = model_request.read(scope["headers"], body)
    why = allowed_requests.why_not(route.rules, request.fields, turn.allowed)
    if why is not None:
        _tell(turn, Refusal("not_allowed", why))
        raise _Answered(400, _error(why))
    return request


class _Exchange:
    """One request and its answer."""

    def __init__(self, proxy: ModelProxy, route: Route, turn: ProgramTurn, scope: Scope, send: Send) -> None:
        self._proxy = proxy
        self._route = route
        self._upstream = route.upstream.name
        self._turn = turn
        self._scope = scope
        self._send = send
        self._under_way: UnderWay | None = None  # until it is settled

    async def run(self, request: ModelRequest) -> bool:
        """Whether the program got a whole answer; otherwise its connection is to be closed."""
        if not await self._begin(request):
            return True
        try:
            async with self._request(request, self._asking(request)) as answer:
                if answer.status >= 400:
                    await self._withdraw()
                    return await self._pass_error(answer)
                return await self._pass(answer, request)
        except (RequestNotSent, NoAnswer) as error:
            if isinstance(error, RequestNotSent):
                await self._withdraw()
            await self._settle_as_estimated()
            self._tell(Refusal("unreachable", f"{self._upstream} can't be reached ({error})"))
            await _answer(self._send, 502, _error("the model's host can't be reached at the moment"))
            return True
        finally:
            await self._settle_as_estimated()

    async def _begin(self, request: ModelRequest) -> bool:
        """Whether the request may go out; where a budget is used up, the program gets the answer of a host."""
        dialect = self._route.dialect
        if dialect is None:
            return True
        paid_by, estimate = self._route.upstream.paid_by, meter.estimate(request.fields, len(request.body))
        try:
            begun = await self._proxy.ledger.begin(
                *(self._turn.name, request.model, paid_by, estimate), now_ms=clock.now_ms()
            )
        except apsw.Error as error:  # a full disk, say: no budget would hold
            why = f"{type(error).__name__}: {error}"
            sentence = f"the request was not sent, because Postroom could not record it in its database ({why})"
            self._tell(Refusal("unwritten", sentence))
            await _answer(self._send, 503, _error(sentence))
            return False
        if isinstance(begun, UnderWay):
            self._under_way = begun
            return True
        self._tell(begun)
        await _answer(self._send, dialect.refusal_status, dialect.refusal(begun.sentence))
        return False

    async def _withdraw(self) -> None:
        """The request used nothing."""
        await self._write_used(None)

    async def _settle_as_estimated(self) -> None:
        """Count a request that ended without an answer by its estimate: it may have cost something."""
        if self._under_way is not None:
            await self._write_used(self._under_way.usual)

    async def _write_used(self, tokens: Tokens | None) -> None:
        begun, self._under_way = self._under_way, None
        if begun is not None:
            await self._proxy.ledger.write_used(begun, tokens, now_ms=clock.now_ms())

    def _asking(self, request: ModelRequest) -> bytes:
        """The body, which asks for the counts."""
        if not isinstance(self._route.dialect, dialects.ChatDialect):
            return request.body
        asking = dialects.with_usage(request.fields)
        return request.body if asking is None else json.dumps(asking).encode()

    def _request(self, request: ModelRequest, body: bytes) -> AbstractAsyncContextManager[HostConnection]:
        query = self._scope["query_string"].decode("ascii", "replace")
        return self._proxy.hosts.stream(
            self._scope["method"],
            self._route.url + (f"?{query}" if query else ""),
            body,
            headers.sent(self._scope["headers"], self._route.upstream),
            silence_s=self._proxy.limit_s(request),
        )

    async def _pass(self, answer: HostConnection, request: ModelRequest) -> bool:
        """Pass the answer on as it comes, and write what it used, however it ends."""
        counter = _meter(answer, self._route, request)
        is_whole = False
        try:
            await _start(self._send, answer.status, headers.returned(answer.headers))
            async for chunk in plain_pieces(answer):
                if counter is not None:
                    counter.feed(chunk)
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
            if counter is not None:
                counter.end()
            is_whole = counter is None or counter.is_complete
        except NoAnswer:
            is_whole = False
        finally:
            if counter is not None:
                await self._write_used(counter.tokens())
        await self._end(counter, is_whole=is_whole)
        return is_whole

    async def _end(self, counter: Meter | None, *, is_whole: bool) -> None:
        """Say how the answer ended: to the turn first, which may end the program, then to the program."""
        if not is_whole:
            self._tell(Refusal("cut", f"the answer of {self._upstream} ended before its last event"))
            return
        error = counter.error if counter is not None else {}
        self._tell(host_errors.of_event(self._upstream, error, now_ms=clock.now_ms()) if error else None)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass_error(self, answer: HostConnection) -> bool:
        text = redaction.redact((await _beginning(answer)).decode("utf-8", "replace")).encode()
        now_ms, said = clock.now_ms(), readable(answer.headers)
        refusal = host_errors.of_answer(self._upstream, answer.status, said, dialects.parsed(text), now_ms=now_ms)
        if self._route.dialect is not None:
            self._tell(refusal)
        returned = headers.returned(answer.headers)
        waits = headers.retry_after(said, now_ms=now_ms)
        await _start(self._send, answer.status, [*returned, *waits, headers.length(text)])
        await self._send({"type": "http.response.body", "body": text, "more_body": False})
        return True

    def _tell(self, refusal: Refusal | None) -> None:
        _tell(self._turn, refusal)


def _tell(turn: ProgramTurn, refusal: Refusal | None) -> None:
    if refusal is not None:
        log.warning("gateway.refused", turn=turn.name.turn, why=refusal.reason, sentence=refusal.sentence)
    turn.on_refusal(refusal)


def _meter(answer: HostConnection, route: Route, request: ModelRequest) -> Meter | None:
    if route.dialect is None:
        return None
    kind = readable(answer.headers).get("content-type", "").partition(";")[0].strip().lower()
    is_stream = kind == "text/event-stream" or (request.is_stream and kind != "application/json")  # some name no type
    return (StreamMeter if is_stream else BodyMeter)(route.dialect, len(request.body))


async def _beginning(answer: HostConnection) -> bytes:
    """The body of an error, up to its limit."""
    found = bytearray()
    async for chunk in plain_pieces(answer):
        found += chunk
        if len(found) >= _ERROR_BYTES:
            break
    return bytes(found[:_ERROR_BYTES])


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body; None: the program went away.

    Raises:
        _Answered: it is too large.
    """
    said = dict(scope["headers"]).get(b"content-length", b"0")
    if said.isdigit() and int(said) > MOST_BYTES:
        raise _too_large()
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > MOST_BYTES:
            raise _too_large()
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def _run_unless_gone(work: asyncio.Task[bool], receive: Receive) -> bool:
    """The outcome of *work*; False where it was cut off, because its program went away or its turn ended."""
    gone = asyncio.create_task(_wait_until_gone(receive))
    gone.add_done_callback(lambda _: work.cancel())
    try:
        return await work
    except asyncio.CancelledError:
        this = asyncio.current_task()
        if this is not None and this.cancelling():
            raise  # the server stops
        return False
    except Exception:  # the boundary of one request: the others go on
        log.exception("gateway.request_failed")
        return False
    finally:
        gone.cancel()


async def _wait_until_gone(receive: Receive) -> None:
    """Return when the program has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        continue


async def _close(scope: Scope, receive: Receive) -> None:
    """Close the connection in the middle of the answer: a clean end would look like a whole one."""
    close: Callable[[], None] | None = scope.get(CLOSE)
    if close is not None:
        close()
        await _wait_until_gone(receive)


async def _start(send: Send, status: int, given: Headers) -> None:
    await send({"type": "http.response.start", "status": status, "headers": given})


async def _answer(send: Send, status: int, body: Mapping[str, Any]) -> None:
    text = json.dumps(body).encode()
    await _start(send, status, [(b"content-type", b"application/json"), headers.length(text)])
    await send({"type": "http.response.body", "body": text, "more_body": False})


def _too_large() -> _Answered:
    return _Answered(413, _error(f"the request is larger than {MOST_BYTES} bytes"))


def _between_turns(route: Route | None) -> _Answered:
    """The refusal of a program that runs no turn: not a 401, which would look like a lost login."""
    sentence = "no turn runs: the token is good only during a turn"
    if route is None or route.dialect is None:
        return _Answered(402, _error(sentence))
    return _Answered(route.dialect.refusal_status, route.dialect.refusal(sentence))


def _error(sentence: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": f"Postroom's gateway: {sentence}"}}
