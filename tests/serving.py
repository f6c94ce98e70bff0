"""Functions served inside the test: their environment, and a client for them."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.channels import registry
from shared.core.settings import Settings
from shared.runtime import connected_user

Serving = Callable[..., contextlib.AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, db: Path, tmp_path: Path) -> Iterator[Path]:
    """A database, channels with the keys of the recorded events, and no settings of this machine."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"POSTROOM_{name.upper()}", raising=False)
    with tempfile.TemporaryDirectory(prefix="pr-", dir="/tmp") as sockets:  # short enough for sockets
        for name, value in {
            "POSTROOM_DB": str(db),
            "POSTROOM_RUN_DIR": sockets,
            "POSTROOM_AGENTS_DIR": str(tmp_path / "agents"),
            "POSTROOM_TICK_SECRET": "tick-secret",
            "POSTROOM_NEW_CHATS": "wire",
            "POSTROOM_RETRY_BASE_MS": "1",
            "TELEGRAM_BOT_TOKEN": "7100200300:AAExample",
            "TELEGRAM_WEBHOOK_SECRET": "a-Secret_that-telegram-repeats",
            "TELEGRAM_BOT_USERNAME": "aurora_helper_bot",
            "TELEGRAM_API_BASE": "http://127.0.0.1:1",
            "DISCORD_PUBLIC_KEY": "f7f2db88b74780161a2e67efa0afc95be6cc6dcd56e3f2a559b472fd9ed51dc9",
            "DISCORD_APPLICATION_ID": "1290000000000000001",
            "DISCORD_BOT_TOKEN": "MTI5MDAwMDAwMDAwMDAwMDAwMQ.Example.ExampleExample",
            "DISCORD_API_BASE": "http://127.0.0.1:1/api/v10",
        }.items():
            monkeypatch.setenv(name, value)
        registry.get.cache_clear()
        yield Path(sockets)
        registry.get.cache_clear()


RECORDED_NS = 1_795_168_800 * 10**9  # 2026-11-20T10:00:00Z, minutes after the recorded events


@pytest.fixture
def day_of_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall clock begins on the day of the recorded events: three days later they would be too old to be taken."""
    wall_ns = time.time_ns
    ahead_ns = wall_ns() - RECORDED_NS
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns() - ahead_ns)
    monkeypatch.setattr(time, "time", lambda: (wall_ns() - ahead_ns) / 10**9)


def leap(seconds: float) -> None:
    """Let all timers of the running event loop that are due within so long fire now: a limit is over without a wait."""
    loop = asyncio.get_running_loop()
    earlier = loop.time
    loop.time = lambda: earlier() + seconds  # type: ignore[method-assign]


def app_of(module: ModuleType, *, is_own_user: bool = True) -> Starlette:
    """The function's handler behind every path, as the framework serves it."""
    handler = getattr(module, module.__name__.rpartition(".")[2])
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
    served = Middleware(_Served, is_own_user=is_own_user)
    return Starlette(routes=[Route("/{path:path}", handler, methods=methods)], middleware=[served])


class _Served:
    """Tells of each request whose it is, as a server of ours does: there is no connection here."""

    def __init__(self, app: ASGIApp, is_own_user: bool) -> None:
        self._app = app
        self._is_own_user = is_own_user

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[connected_user.SCOPE_KEY] = lambda: self._is_own_user
        await self._app(scope, receive, send)


@contextlib.asynccontextmanager
async def _serving(module: ModuleType, host: str = "127.0.0.1:3777") -> AsyncIterator[httpx.AsyncClient]:
    app = app_of(module)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with module.lifespan(app), httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
        yield client


@pytest.fixture
def serving() -> Serving:
    """A function with its lifespan, and a client for it."""
    return _serving


@pytest.fixture
def until() -> Callable[..., Awaitable[Any]]:
    """Waits until another task or thread has done something."""

    async def wait(condition: Callable[[], Any], limit_s: float = 60.0) -> Any:
        began = time.monotonic()
        async with asyncio.timeout(limit_s):
            while not (found := condition()):  # noqa: ASYNC110 - no event announces a change of rows
                await asyncio.sleep(min(max(0.002, (time.monotonic() - began) / 20), 0.05))
            return found

    return wait
