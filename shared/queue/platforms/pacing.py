"""The limits of platforms, kept in rows: they hold over restarts, and for every process that calls a platform.

``call_scopes`` says who names what. A call that has to wait goes no further than here, and costs one read; an answer
costs a write only where it says something new.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import apsw

from shared.core import logs
from shared.core.call_scopes import CallLimits, CallPacing, CallScopes, LimitHold, Scope
from shared.core.errors import RateLimited
from shared.core.time import clock
from shared.db.engine.group_commit import Writer
from shared.db.platforms import call_holds
from shared.db.platforms.call_holds import CallHold
from shared.queue.platforms.send_room import SendRoom
from shared.runtime.http_client import ANSWER_BYTES, Client, HttpAnswer, StreamedBody
from shared.runtime.worker_service import WorkerService

log = logs.get()

Write = Callable[[Callable[[apsw.Connection], None]], Awaitable[None]]
"""Does the work in a transaction of its own."""

SPREAD_MS = 1000  # see ``LimitHold.spreads_to``


class RowPacing:
    """See ``CallPacing``.

    Args:
        reader: a connection that only this pacing's event loop uses.
        write: as ``Write`` says.
        room: holds the calls that a platform would refuse; None: nothing does.
    """

    def __init__(
        self,
        reader: apsw.Connection,
        write: Write,
        now_ms: Callable[[], int] = clock.now_ms,
        room: SendRoom | None = None,
    ) -> None:
        self._reader = reader
        self._room = room
        self._write = write
        self._now_ms = now_ms
        self._learnt: dict[tuple[str, str], str] = {}  # buckets that the rows have, by account and method

    async def admit(self, scopes: CallScopes) -> None:
        """See ``CallPacing.admit``."""
        now_ms = self._now_ms()
        held = call_holds.active(self._reader, scopes.account, now_ms=now_ms)
        hold = longest(held, self._all_scopes(scopes)) if held else None
        if hold is not None:
            raise RateLimited(f"{hold.reason}; nothing was sent before that wait is over", hold.not_before - now_ms)
        opens_at = self._room.enter(scopes) if self._room is not None else None
        if opens_at is not None:
            full = f"{scopes.platform.title()} lets no more through now; nothing was sent, and it goes out by itself"
            raise RateLimited(full, opens_at - now_ms)

    def leave(self, scopes: CallScopes) -> None:
        """See ``CallPacing.leave``."""
        if self._room is not None:
            self._room.leave(scopes)

    def _all_scopes(self, scopes: CallScopes) -> set[Scope]:
        found = {*scopes.scopes, Scope("address", scopes.platform)}
        bucket = call_holds.bucket(self._reader, scopes.account, scopes.method)
        return found if bucket is None else {*found, scopes.in_bucket(bucket)}

    async def record(self, scopes: CallScopes, limits: CallLimits) -> None:
        """See ``CallPacing.record``."""
        if self._room is not None:
            limits = self._room.learn(scopes, limits)
        key = (scopes.account, scopes.method)
        is_new_bucket = limits.bucket is not None and self._learnt.get(key) != limits.bucket
        if not (limits.holds or limits.counts_as_invalid or is_new_bucket):
            return
        try:
            await self._write(partial(keep, scopes=scopes, limits=limits, now_ms=self._now_ms()))
        except apsw.Error as error:  # the message may have gone out: its row is the one that must be written
            log.warning("pacing.not_written", channel=scopes.account, reason=type(error).__name__)
            return
        if limits.bucket is not None:
            self._learnt[key] = limits.bucket


class PacedClient:
    """A ``Client`` with pacing: what functions and commands hand to adapters."""

    def __init__(self, client: Client, pacing: CallPacing) -> None:
        self._client = client
        self.pacing: CallPacing | None = pacing

    async def request(
        self,
        method: str,
        url: str,
        body: bytes | StreamedBody,
        headers: Mapping[str, str],
        *,
        limit_bytes: int = ANSWER_BYTES,
    ) -> HttpAnswer:
        return await self._client.request(method, url, body, headers, limit_bytes=limit_bytes)

    async def close(self) -> None:
        await self._client.close()


def paced(client: Client, service: WorkerService, room: SendRoom | None = None) -> PacedClient:
    """The client of a function that works by itself: it reads with its connection, and writes with its writer."""
    return paced_over(client, service.reader, service.writer, room)


def paced_over(client: Client, reader: apsw.Connection, writer: Writer, room: SendRoom | None = None) -> PacedClient:
    """The client of another function."""

    async def write(work: Callable[[apsw.Connection], None]) -> None:
        await writer.run(work, durable=False)

    return PacedClient(client, RowPacing(reader, write, room=room))


def held_bots(conn: apsw.Connection, *, now_ms: int) -> dict[str, int]:
    """The accounts of which no call may go out now, each with the instant at which that ends."""
    return {hold.channel: hold.not_before for hold in call_holds.every(conn, now_ms=now_ms) if hold.scope.kind == "bot"}


def longest(held: list[CallHold], scopes: set[Scope]) -> CallHold | None:
    """The wait that ends last among those of these scopes, or None. Pure."""
    return max((hold for hold in held if hold.scope in scopes), key=lambda hold: hold.not_before, default=None)


def keep(conn: apsw.Connection, scopes: CallScopes, limits: CallLimits, *, now_ms: int) -> None:
    """Write what one answer said about limits; the caller owns the transaction."""
    if limits.bucket is not None:
        call_holds.learn_bucket(conn, scopes.account, scopes.method, limits.bucket)
    for asked in limits.holds:
        for hold in _spread(conn, scopes.account, asked, now_ms=now_ms):
            call_holds.hold(conn, scopes.account, hold, now_ms=now_ms)
            log.warning("pacing.held", channel=scopes.account, scope=hold.scope.kind, wait_ms=hold.wait_ms)
    if limits.counts_as_invalid:
        _count(conn, scopes, now_ms=now_ms)


def _spread(conn: apsw.Connection, account: str, asked: LimitHold, *, now_ms: int) -> list[LimitHold]:
    """The waits that one answer asks for; see ``LimitHold.spreads_to``."""
    wider = asked.spreads_to
    if wider is None or not call_holds.others_held_since(conn, account, asked.scope, since_ms=now_ms - SPREAD_MS):
        return [asked]
    return [asked, asked._replace(scope=wider, spreads_to=None)]


def _count(conn: apsw.Connection, scopes: CallScopes, *, now_ms: int) -> None:
    until_ms = call_holds.count_refusal(conn, scopes.platform, now_ms=now_ms)
    if until_ms is None:
        return
    reason = (
        f"{scopes.platform} refused {call_holds.SAFE_REFUSALS} calls of this machine within "
        f"{call_holds.WINDOW_MINUTES} minutes, and blocks an address that continues; the log names them"
    )
    hold = LimitHold(Scope("address", scopes.platform), until_ms - now_ms, reason)
    call_holds.hold(conn, scopes.account, hold, now_ms=now_ms)
    log.error("pacing.too_many_refusals", channel=scopes.account, wait_ms=hold.wait_ms)
