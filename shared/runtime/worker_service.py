"""The base of dispatch and deliver, which work by themselves: a worker loop, and a connection to read with."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import apsw
from starlette.responses import JSONResponse, Response

from shared.core import logs
from shared.core.settings import Settings
from shared.db.engine.connection import open_connection
from shared.db.engine.past import Past
from shared.runtime.service import FunctionService
from shared.runtime.worker import Worker

log = logs.get()

T = TypeVar("T")


class WorkerService(FunctionService, ABC):
    """Subclasses say how to repair and what a step does; see :class:`Worker`."""

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(settings)
        self.reader = open_connection(settings.db, readonly=True)
        self.worker = Worker(name, db=settings.db, sockets=settings.sockets, repair=self.look_back, step=self.step)
        self._may_claim = True

    @abstractmethod
    async def repair(self) -> None:
        """Settle what earlier processes left unfinished."""

    @abstractmethod
    async def claim_and_start(self) -> float | None:
        """Claim what is ready, as far as there is room, and start it; the seconds until more becomes due, or None."""

    async def repair_past(self, past: Past) -> None:
        """On a copy of the past, in place of :meth:`repair`: what was under way then stays as it was."""
        log.info("worker.held", reason=past.sentence)

    async def step_in_past(self, _: Past) -> float | None:
        """On a copy of the past, in place of :meth:`claim_and_start`: nothing."""
        return None

    async def look_back(self) -> None:
        """Before the first step: settle what earlier processes left, or leave it, in the past."""
        await (self.repair() if self.past is None else self.repair_past(self.past))

    async def step(self) -> float | None:
        """Start what is ready, which in the past is next to nothing; the seconds until more becomes due, or None."""
        return await (self.claim_and_start() if self.past is None else self.step_in_past(self.past))

    async def claim(self, work: Callable[[apsw.Connection], list[T]], *, durable: bool = True) -> list[T]:
        """The claims that *work* makes in one transaction.

        A cancelled step makes no claim: no job would run it, and it would be held until its lease runs out.
        """
        is_idle = self.worker.running == 0
        try:
            return await self.writer.run(
                lambda conn: work(conn) if self._may_claim else [], durable=durable, alone=is_idle
            )
        except asyncio.CancelledError:
            self._may_claim = False
            raise

    def begin(self) -> None:
        self.worker.begin()

    async def work_is_over(self) -> None:
        """Called at the stop, when no job runs any more and rows can still be written."""

    async def close(self) -> None:
        await self.worker.stop()
        await self.work_is_over()
        await super().close()
        self.reader.close()


async def wake(service: WorkerService) -> Response:
    """The answer to a tick: the worker looks for work, and 202 tells how many jobs are running."""
    service.worker.begin()
    service.worker.wake()
    return JSONResponse({"running": service.worker.running}, status_code=202)
