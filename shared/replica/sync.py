"""Waiting until what was committed is in the replica, for those whose acknowledgement promises that.

Litestream copies every commit by itself, a moment later. Where ``POSTROOM_DURABILITY`` says ``replicated``, nobody is
told that a message is stored before Litestream has said, over its control socket, that it is in the replica, and its
keeper, that the replica is ours (``shared/replica/sync_permit.py``).

Whoever waits at the same time waits together. Those who come while Litestream is at work share its next answer and
never the current one, which may have been begun before their commit. There is no timer: who is alone is asked for at
once.
"""

import asyncio
import math
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httptools
import msgspec

from shared.core.durability import EVERY_OTHER, parse_levels
from shared.core.errors import ConfigInvalid, NotReplicated
from shared.db.engine import write_gate
from shared.replica import sync_permit

if TYPE_CHECKING:  # the supervisor, which only asks, has no use for what reads settings
    from shared.core.settings import Settings

API = "api"  # what messages are called here that come over REST, whatever channel they name
_REASON_CHARACTERS = 300
_TORN = "a process died in a commit: Litestream begins with a whole copy"
_NOT_OURS = "the replica has no whole copy yet, or its lease has run out"


class Replication:
    """The way to ask; one object for a process and its event loop. With every channel ``local`` it opens nothing.

    Args:
        settings: ``durability``, ``litestream_socket``, ``replication_timeout_ms``, ``db``.
        channels: the names that may stand in ``durability``.

    Raises:
        ConfigInvalid: the setting names an unknown channel, or there is no socket to ask at.
    """

    def __init__(self, settings: "Settings", channels: Iterable[str]) -> None:
        self._levels = parse_levels(settings.durability)
        known = {API, *channels}
        if not {EVERY_OTHER, *known}.issuperset(self._levels):
            raise ConfigInvalid(
                f"POSTROOM_DURABILITY names a channel that does not exist; known: {', '.join(sorted(known))}"
            )
        socket = settings.litestream_socket
        if socket is None and "replicated" in self._levels.values():
            raise ConfigInvalid(
                "POSTROOM_DURABILITY=replicated needs POSTROOM_LITESTREAM_SOCKET: the control socket of the Litestream "
                "that replicates this database"
            )
        self._socket = socket
        self._database = settings.db.absolute()
        self._limit_s = settings.replication_timeout_ms / 1000
        self._waiting: list[asyncio.Future[str | None]] = []
        self._asking: asyncio.Task[None] | None = None

    def is_awaited(self, channel: str) -> bool:
        """Whether acknowledging something to *channel* waits for the replica."""
        return self._levels.get(channel, self._levels[EVERY_OTHER]) == "replicated"

    async def confirm(self, channel: str) -> None:
        """Return when what this process has committed so far may be acknowledged to *channel*: at once if ``local``.

        Call it after the commit and before the 2xx, for a duplicate as well: the first delivery may have been
        committed and not replicated. REST is the channel ``api``::

            await self.writer.run(work)
            await self.replication.confirm(replication.API)  # NotReplicated: 503 with Retry-After

        Raises:
            NotReplicated: Litestream did not answer, or said no, within ``replication_timeout_ms``; or it replicates
                to a place that no restore may look in. The rows stay, and are replicated as soon as that is possible.
        """
        if not self.is_awaited(channel):
            return
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        try:
            async with asyncio.timeout(self._limit_s):
                problem = await answer
        except TimeoutError:
            problem = f"not within {self._limit_s:g} s"
        if problem is not None:
            raise NotReplicated(problem)

    async def close(self) -> None:
        """Ask no more; who still waits is told that it is not replicated."""
        if self._asking is not None:
            self._asking.cancel()
            with suppress(asyncio.CancelledError):
                await self._asking
        _tell(self._waiting, "this function is stopping")

    async def _ask(self) -> None:
        """One question after another, as long as somebody waits."""
        try:
            while self._waiting:
                together, self._waiting = self._waiting, []
                if all(answer.done() for answer in together):
                    continue  # they have given up
                problem: str | None = "Litestream was not asked to the end"
                try:
                    problem = await self._sync()
                finally:
                    _tell(together, problem)
        finally:
            self._asking = None

    async def _sync(self) -> str | None:
        if self._socket is None:
            return "no control socket"
        try:
            await sync(self._socket, self._database, self._limit_s)
        except NotReplicated as error:
            return str(error)
        if write_gate.is_torn(self._database):
            return _TORN
        return None if sync_permit.is_valid(self._socket) else _NOT_OURS


class _Synced(msgspec.Struct):
    """What Litestream answers: where the database stands, and where the replica."""

    txid: int
    replicated_txid: int = 0


async def sync(socket: Path, database: Path, limit_s: float) -> int:
    """Have everything committed so far brought to the replica; the position there.

    Litestream reads both positions when it has finished, and by then its own monitor may have taken in newer commits:
    such an answer is no "no". The next one tells whether the replica has reached the position of the first.

    Source: https://litestream.io/reference/ipc/#post-sync

    Args:
        database: absolute, as Litestream calls it.

    Raises:
        NotReplicated: it is not known to be there, and why.
    """
    body = msgspec.json.encode({"path": str(database), "wait": True, "timeout": math.ceil(limit_s)})
    try:
        async with asyncio.timeout(limit_s):
            synced, text = await _asked(socket, body)
            wanted = 0 if synced is None else synced.txid
            if synced is not None and synced.replicated_txid < wanted:
                synced, text = await _asked(socket, body)
    except (OSError, TimeoutError, httptools.HttpParserError) as error:
        raise NotReplicated(f"Litestream does not answer ({type(error).__name__})") from None
    if synced is None or synced.replicated_txid < wanted:
        raise NotReplicated(text)
    return synced.replicated_txid


async def _asked(socket: Path, body: bytes) -> tuple[_Synced | None, str]:
    """What Litestream answers, if it is a position; and its words."""
    status, text = await _post(socket, b"/sync", body)
    try:
        synced = msgspec.json.decode(text, type=_Synced) if status == 200 else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        synced = None
    return synced, text.decode("utf-8", "replace").strip()[:_REASON_CHARACTERS] or f"status {status}"


async def _post(socket: Path, path: bytes, body: bytes) -> tuple[int, bytes]:
    """Status and body. A connection for each question: none can be stale after Litestream was started again.

    This is not ``HttpClient``, because ``ingest`` asks before each acknowledgement: httpcore takes 0.38 ms of CPU for
    it, this 0.07 ms.
    """
    head = b"POST %s HTTP/1.1\r\nHost: litestream\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    loop = asyncio.get_running_loop()
    transport, exchange = await loop.create_unix_connection(_Exchange, str(socket))
    try:
        transport.write(head % (path, len(body)) + body)
        return await exchange.answer
    finally:
        transport.abort()


class _Exchange(asyncio.Protocol):
    """One HTTP answer, whole."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionResetError())

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if not self.answer.done():
            self.answer.set_result((self._parser.get_status_code(), bytes(self._body)))

    def _fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


def _tell(waiting: Iterable["asyncio.Future[str | None]"], problem: str | None) -> None:
    for answer in waiting:
        if not answer.done():
            answer.set_result(problem)
