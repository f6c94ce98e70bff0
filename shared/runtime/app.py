"""What every function's HTTP side has in common: health, the tick, errors as JSON, bodies of bounded size."""

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar

from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.core.ticks import TICK_HEADER


class Service(Protocol):
    """What a function holds between requests."""

    def close(self) -> Awaitable[None] | None:
        """Let go of everything, at once or when awaited."""


T = TypeVar("T", bound=Service)

BODY_LIMIT = 1024 * 1024  # bytes


class Held(Generic[T]):
    """One object for the life of a process, made on first use: by the lifespan, or by the first request without one.

    *begin* is what the lifespan does with it before the first request; at the end it is closed.
    """

    def __init__(self, make: Callable[[], T], begin: Callable[[T], None] | None = None) -> None:
        self._make = make
        self._begin = begin
        self._object: T | None = None

    def get(self) -> T:
        if self._object is None:
            self._object = self._make()
        return self._object

    def drop(self) -> None:
        self._object = None

    @asynccontextmanager
    async def lifespan(self, _: ASGIApp) -> AsyncIterator[None]:
        """Open before the first request, close after the last: what a function's module calls ``lifespan``."""
        service = self.get()
        try:
            if self._begin is not None:
                self._begin(service)
            yield
        finally:
            closing = service.close()
            if closing is not None:
                await closing
            self.drop()


class Handled(Response):
    """What a handler returns to the framework: everything about this request is answered by *app*."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def function_app(
    name: str, routes: Sequence[BaseRoute], *, tick: Callable[[Request], Awaitable[Response]] | None = None
) -> Starlette:
    """The app inside a function's handler: its own *routes*, ``/healthz``, and ``/tick`` where it has one."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"ok": True, "function": name})

    common = [Route("/healthz", healthz, methods=["GET"])]
    if tick is not None:
        common.append(Route("/tick", tick, methods=["POST"]))

    async def broken(_: Request, __: Exception) -> Response:
        return JSONResponse({"error": f"{name} failed on this; its log says why"}, status_code=500)

    return Starlette(routes=[*common, *routes], exception_handlers={HTTPException: _refused, Exception: broken})


async def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=error.headers)


def check_tick(request: Request, secret: SecretStr | None) -> None:
    """Let only the ticker in.

    Raises:
        HTTPException: 503 without a configured secret, 401 for a wrong one.
    """
    if secret is None:
        raise HTTPException(503, "ticks are refused: POSTROOM_TICK_SECRET is not set")
    given = request.headers.get(TICK_HEADER, "")
    if not hmac.compare_digest(given.encode("utf-8", "replace"), secret.get_secret_value().encode()):
        raise HTTPException(401, f"wrong or missing {TICK_HEADER} header")


async def read_body(request: Request, limit: int = BODY_LIMIT) -> bytes:
    """The whole body.

    Raises:
        HTTPException: 413 as soon as it grows past *limit* bytes.
    """
    chunks = bytearray()
    async for chunk in request.stream():
        chunks += chunk
        if len(chunks) > limit:
            raise HTTPException(413, f"the body is larger than {limit} bytes")
    return bytes(chunks)


async def gone(receive: Receive) -> None:
    """Return when whoever asked has gone away. What is left of the body is not kept."""
    while (await receive())["type"] != "http.disconnect":
        pass
