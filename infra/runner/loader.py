"""Finds a function by its name and makes the app that is served: its handler for every path, and its ``lifespan``."""

import contextlib
import importlib
import logging
import pkgutil
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.core import logs
from shared.core.errors import PostroomError, UnknownName
from shared.db.engine.writer_process import WriterProcess
from shared.runtime.framework import Handler

Opened = contextlib.AbstractAsyncContextManager[Mapping[str, Any] | None]

log = logs.get()


def function_names(package: str = "functions") -> tuple[str, ...]:
    """The names of all functions, sorted: one for each file."""
    path = importlib.import_module(package).__path__
    return tuple(sorted(found.name for found in pkgutil.iter_modules(path) if not found.name.startswith("_")))


def load(name: str, package: str = "functions") -> Router:
    """The function's app, with its ``lifespan`` attached. What its handler raises is the caller's to answer.

    Raises:
        UnknownName: there is no such function; lists all functions. No other module can be loaded by a name.
    """
    names = function_names(package)
    if name not in names:
        raise UnknownName("function", name, names)
    module = importlib.import_module(f"{package}.{name}")
    # Without routes: one would not match a path with a line break.
    return Router(lifespan=Lifespan(module.lifespan), default=_app_of(getattr(module, name)), redirect_slashes=False)


def _app_of(handler: Handler) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await handler(Request(scope, receive, send))
        await response(scope, receive, send)

    return app


def writer_process_of(name: str, package: str = "functions") -> WriterProcess | None:
    """The process that the loaded function wants beside it, to be forked before anything is opened, or None."""
    found: WriterProcess | None = getattr(importlib.import_module(f"{package}.{name}"), "writer_process", None)
    return found


def niceness_of(name: str, package: str = "functions") -> int:
    """How far the loaded function gives way to others on its machine: 0 (not at all) to 19."""
    found: int = getattr(importlib.import_module(f"{package}.{name}"), "niceness", 0)
    return found


class Lifespan:
    """The function's own lifespan. Its refusal to start is one line in the log, and not uvicorn's traceback."""

    def __init__(self, lifespan: Callable[[ASGIApp], Opened]) -> None:
        self._lifespan = lifespan
        self.has_refused = False

    @contextlib.asynccontextmanager
    async def __call__(self, app: ASGIApp) -> AsyncIterator[Mapping[str, Any]]:
        async with contextlib.AsyncExitStack() as stack:
            try:
                state = await stack.enter_async_context(self._lifespan(app))
            except PostroomError as error:
                log.error("function.refused", reason=str(error))
                logging.getLogger("uvicorn.error").disabled = True
                self.has_refused = True
                raise
            yield state or {}
