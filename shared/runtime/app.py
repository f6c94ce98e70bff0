"""The HTTP side that all functions share: health, the tick, errors as JSON, bodies of bounded size."""

import hmac
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import SecretStr
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.core import http_head
from shared.core.http_head import TICK_HEADER
from shared.runtime.service import LazyService, ServiceT

BODY_LIMIT = 1024 * 1024  # bytes


class AppResponse(Response):
    """A handler's return value that hands the whole request to *app*; a malformed Host or path is answered with 400."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = _head_problem(scope)
        app = self._app if problem is None else JSONResponse({"error": problem}, 400)
        await app(scope, receive, send)


def _head_problem(scope: Scope) -> str | None:
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    if len(hosts) > 1:
        return "the request has more than one Host header: send one"
    return http_head.path_problem(scope["path"]) or (http_head.host_problem(hosts[0]) if hosts else None)


def function_app(
    name: str, routes: Sequence[BaseRoute], *, problem: Callable[[], str | None] = lambda: None
) -> ASGIApp:
    """The app behind a function's handler: its own *routes*, and ``/healthz``, which fails while it has a *problem*."""

    async def healthz(_: Request) -> Response:
        found = problem()
        if found is not None:
            return JSONResponse({"ok": False, "function": name, "error": found}, 503)
        return JSONResponse({"ok": True, "function": name})

    return _JsonErrors(Router([Route("/healthz", healthz, methods=["GET"]), *routes]), name)


class _JsonErrors:
    """Answers what *app* raises; an error that is not for the caller goes on to the server, which logs it.

    Starlette's application does that too, in three layers, each with a closure around ``send``: a tenth of the CPU of a
    webhook.
    """

    def __init__(self, app: ASGIApp, name: str) -> None:
        self._app = app
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # then the router raises its 404 and 405
        scope["starlette.exception_handlers"] = _HANDLERS  # of routes; functions-framework has others
        has_begun = False

        async def begin_and_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, begin_and_send)
        except HTTPException as error:
            if has_begun:
                raise
            await (await _refused(Request(scope), error))(scope, receive, send)
        except Exception:
            if not has_begun:
                sentence = f"{self._name} failed on this request; its log says why"
                await JSONResponse({"error": sentence}, status_code=500)(scope, receive, send)
            raise


async def _refused(_: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=error.headers)


_HANDLERS = {HTTPException: _refused}, dict[int, Any]()


def tick_route(service: LazyService[ServiceT], answer: Callable[[ServiceT], Awaitable[Response]]) -> Route:
    """``POST /tick``, for callers that know the tick secret: 503 where none is configured, 401 for a wrong one."""

    async def tick(request: Request) -> Response:
        found = service.get()
        _check_secret(request.headers.get(TICK_HEADER, ""), found.settings.tick_secret)
        return await answer(found)

    return Route("/tick", tick, methods=["POST"])


def _check_secret(given: str, secret: SecretStr | None) -> None:
    if secret is None:
        raise HTTPException(503, "ticks are refused: POSTROOM_TICK_SECRET is not set; set it for functions and ticker")
    if not hmac.compare_digest(given.encode("utf-8", "replace"), secret.get_secret_value().encode()):
        raise HTTPException(401, f"the {TICK_HEADER} header is missing or does not hold POSTROOM_TICK_SECRET")


async def read_body(request: Request, limit: int = BODY_LIMIT) -> bytes:
    """The whole body.

    Raises:
        HTTPException: 413 as soon as it grows past *limit* bytes; 499: the client disconnected.
    """
    chunks = bytearray()
    try:
        async for chunk in request.stream():
            chunks += chunk
            if len(chunks) > limit:
                raise HTTPException(413, f"the body is larger than {limit} bytes")
    except ClientDisconnect:
        raise HTTPException(499, "the client disconnected before the end of the body") from None
    return bytes(chunks)


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected. The rest of the body is thrown away."""
    while (await receive())["type"] != "http.disconnect":
        pass
