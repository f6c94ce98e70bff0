"""What a function holds between requests: one object a process, with the settings, the writer and the kicker."""

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import apsw
from starlette.types import ASGIApp

from shared.core import logs
from shared.core.settings import Settings
from shared.db.engine import meta, past, schema
from shared.db.engine.group_commit import Writer
from shared.db.engine.past import Past
from shared.runtime.http1_client import HttpClient
from shared.runtime.http_client import Client
from shared.runtime.kick import Kicker
from shared.runtime.past import NoClient

log = logs.get()

# As it was when this process began: the files of a later release may lie there by now.
_KNOWN = max(schema.migrations())


class RowAccess(Protocol):
    """What a part of a process needs of it to work with rows: a connection that reads, the writer, and kicks."""

    @property
    def reader(self) -> apsw.Connection:
        """A connection that only reads."""

    @property
    def writer(self) -> Writer:
        """Commits durably, before its ``run`` returns."""

    def kick(self, *names: str) -> None:
        """Wake these functions."""


class FunctionService:
    """The base of every function's service."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.writer = Writer(settings.db)
        self.kicker = Kicker(settings.sockets)

    @cached_property
    def past(self) -> Past | None:
        """What the database is a copy of, if it is one of the past: nothing is sent or run then. None: it lives."""
        return past.of_file(self.settings.db)

    def outgoing(self, client: Client | None) -> Client:
        """The *client* for requests to platforms, by default one of HTTP; one that sends nothing in the past."""
        if self.past is not None:
            return NoClient(self.past)
        return client or HttpClient()

    def ends_as_outdated(self, conn: apsw.Connection) -> bool:
        """End this process in good order where a later release has migrated the database: its supervisor starts that.

        Statements of this release may name what the later schema has no more, such as the columns of an index.
        """
        found = int(meta.get(conn, "schema_version") or 0)
        if found <= _KNOWN:
            return False
        log.error("function.outdated", schema=found, known=_KNOWN)
        os.kill(os.getpid(), signal.SIGTERM)
        return True

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
