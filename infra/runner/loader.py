"""Finds a function by its name, and makes the app of it that is served: the framework's, with its own ``lifespan``."""

import contextlib
import importlib
import logging
import os
import pkgutil
from collections.abc import AsyncIterator, Callable, Mapping
from types import ModuleType
from typing import Any

from starlette.applications import Starlette

from shared.core import logs
from shared.core.errors import PostroomError, UnknownName
from shared.runtime import framework
from shared.runtime.framework import FUNCTION_SIGNATURE_TYPE

Opened = contextlib.AbstractAsyncContextManager[Mapping[str, Any] | None]

log = logs.get()


def known(package: str = "functions") -> tuple[str, ...]:
    """The functions that exist, sorted: one per file."""
    path = importlib.import_module(package).__path__
    return tuple(sorted(found.name for found in pkgutil.iter_modules(path) if not found.name.startswith("_")))


def load(name: str, package: str = "functions") -> Starlette:
    """The function's app, with its ``lifespan`` attached.

    Raises:
        UnknownName: there is no such function; lists those that exist. Nothing else can be loaded by a name.
    """
    names = known(package)
    if name not in names:
        raise UnknownName("function", name, names)
    module = importlib.import_module(f"{package}.{name}")
    app = _framework_app(name, module)
    app.router.lifespan_context = Lifespan(module.lifespan)
    return app


class Lifespan:
    """The function's own; but what it refuses to start with is one line in the log, and not uvicorn's traceback."""

    def __init__(self, lifespan: Callable[[Starlette], Opened]) -> None:
        self._lifespan = lifespan
        self.has_refused = False

    @contextlib.asynccontextmanager
    async def __call__(self, app: Starlette) -> AsyncIterator[Mapping[str, Any]]:
        async with contextlib.AsyncExitStack() as stack:
            try:
                state = await stack.enter_async_context(self._lifespan(app))
            except PostroomError as error:
                log.error("function.refused", reason=str(error))
                logging.getLogger("uvicorn.error").disabled = True
                self.has_refused = True
                raise
            yield state or {}


def _framework_app(name: str, module: ModuleType) -> Starlette:
    os.environ.pop("LOG_EXECUTION_ID", None)  # it would put another log in the place of ours, by way of Flask
    before = os.environ.get(FUNCTION_SIGNATURE_TYPE)
    app: Starlette = framework.aio.create_asgi_app_from_module(  # type: ignore[no-untyped-call]
        name, module.__file__, "http", module, module.__spec__
    )
    # The framework leaves a variable behind, which the programs that a function starts need not see.
    if before is None:
        os.environ.pop(FUNCTION_SIGNATURE_TYPE, None)
    # Its handler of exceptions begins a second answer when one had begun; Guard does better. And it makes up an id for
    # each request that only lines of its own would show.
    superfluous: tuple[object, ...] = (framework.aio.ExceptionHandlerMiddleware, framework.execution_id.AsgiMiddleware)
    app.user_middleware = [layer for layer in app.user_middleware if layer.cls not in superfluous]
    return app
