"""The HTTP server of one function: uvicorn, which stops within a limit whatever the function does."""

import asyncio
import contextlib
import faulthandler
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

from infra.runner.request_guard import RequestGuard
from shared.core import logs
from shared.core.slim_imports import late
from shared.runtime.connections import KEEP_ALIVE_S, Connections, LimitedProtocol
from shared.runtime.open_files import connection_limit

with late("uvicorn.main", "Server", "main", "run"):  # as shared/runtime/connections.py does
    from uvicorn.config import Config
    from uvicorn.server import Server

STOP_LIMIT_S = 2.8  # from the signal to the end of the process
GRACE_S = 1.5  # of these, for responses under way
GARBAGE_OBJECTS = 10_000  # new objects between garbage collections; Python's default, 700, is a few requests
THREAD_SLICE_S = 0.0005  # of a thread, while others wait for the interpreter; a transaction waits for some thirty
_TICK_S = 1.0

log = logs.get()


class FunctionServer(Server):
    """uvicorn that reports when it is ready, ends event streams at a stop, and keeps the time limit of a stop.

    Args:
        on_turn: called every second by the event loop, so it is not called while that hangs.
    """

    def __init__(
        self,
        guard: RequestGuard,
        on_ready: Callable[[], None] | None,
        on_turn: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(
            Config(
                guard,
                loop="uvloop",
                http=LimitedProtocol,
                ws="none",
                lifespan="on",
                access_log=False,
                log_config=None,
                log_level="warning",
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=GRACE_S,  # type: ignore[arg-type]  # asyncio.wait_for takes fractions
            )
        )
        self.server_state = self._connections = Connections(connection_limit())
        self._guard = guard
        self._on_ready = on_ready
        self._on_turn = on_turn
        self._starting: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.should_exit:
            log.info("function.stopped", reason="before it was ready")
            return
        self._starting = asyncio.ensure_future(super().startup(sockets))
        try:
            await self._starting
        except asyncio.CancelledError:
            if not self.should_exit:
                raise
            log.info("function.stopped", reason="before it was ready")
        if self.started and not self.should_exit:
            # Loaded modules never become garbage. A collection that visits them all stops requests for 50 ms.
            gc.collect()
            gc.freeze()
            gc.set_threshold(GARBAGE_OBJECTS)
            sys.setswitchinterval(THREAD_SLICE_S)
            log.info("function.ready")
            if self._on_ready is not None:
                self._on_ready()

    async def main_loop(self) -> None:
        """Wait for the end of the server; wake once a second for the time in the response headers and for late clients.

        uvicorn's own loop wakes ten times a second, which was nearly all the work of an idle function.
        """
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            self._connections.close_late(self._loop.time())
            self._on_turn()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._guard.end_streams()
        self._connections.close_late(asyncio.get_running_loop().time())
        await super().shutdown(sockets)
        log.info("function.stopped")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop at a signal; at a second Ctrl-C, do not wait for responses under way.

        uvicorn's own method raises the signal again at the end, which changes the exit code.
        """
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        if not self.should_exit:
            # Works even when the event loop is blocked: prints the traceback and ends the process with code 1.
            # It is never cancelled, because the steps that follow (executors, threads) can hang as well.
            faulthandler.dump_traceback_later(STOP_LIMIT_S, exit=True, file=sys.__stderr__ or sys.stderr)
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._ending.set)
        if self._starting is not None and not self._starting.done():
            logging.getLogger("uvicorn.error").disabled = True  # it would report the cancelled lifespan as a failure
            self._starting.get_loop().call_soon_threadsafe(self._starting.cancel)
