"""What a function holds between requests: one object a process, with the settings, the writer and the kicker."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from starlette.types import ASGIApp

from shared.core.settings import Settings
from shared.db.engine.group_commit import Writer
from shared.runtime.kick import Kicker


class FunctionService:
    """The base of every function's service."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.writer = Writer(settings.db)
        self.kicker = Kicker(settings.sockets)

    def begin(self) -> None:
        """Start what runs between requests; the lifespan calls this before the first request."""

    def kick(self, *names: str) -> None:
        """Wake the functions of these *names*."""
        for name in names:
            self.kicker.kick(name)

    async def close(self) -> None:
        """Finish the writes and let go of everything."""
        self.writer.close()
        self.kicker.close()


ServiceT = TypeVar("ServiceT", bound=FunctionService)


class LazyService(Generic[ServiceT]):
    """Makes the service on first use: in the lifespan, or at the first request where no lifespan runs."""

    def __init__(self, make: Callable[[Settings], ServiceT]) -> None:
        self._make = make
        self._service: ServiceT | None = None

    def get(self) -> ServiceT:
        """The service.

        Raises:
            ConfigInvalid: the environment's settings are wrong.
        """
        if self._service is None:
            self._service = self._make(Settings.load())
        return self._service

    @asynccontextmanager
    async def lifespan(self, _: ASGIApp) -> AsyncIterator[None]:
        """Begin before the first request and close after the last: the ``lifespan`` of a function's module."""
        service = self.get()
        try:
            service.begin()
            yield
        finally:
            await service.close()
            self._service = None
