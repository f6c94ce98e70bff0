"""Waits until a commit is in the replica, for callers whose acknowledgement promises that.

Litestream copies every commit by itself, a moment later. Where ``POSTROOM_DURABILITY`` says ``replicated``, a message
is acknowledged only after two answers. Litestream says over its control socket that it is in the replica. Its
supervisor says that the replica is ours (``shared/replica/sync_permit.py``).

Callers that wait at the same time wait together. Those that come while Litestream works share its next answer, and
never the current one, which may have begun before their commit. There is no timer: a caller that is alone asks at once.
"""

import asyncio
import math
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httptools
import msgspec

from shared.core import accounts
from shared.core.durability import EVERY_OTHER, parse_levels
from shared.core.errors import ConfigInvalid, NotReplicated
from shared.db.engine import write_gate
from shared.replica import sync_permit

if TYPE_CHECKING:  # the supervisor only asks, and needs nothing that reads settings
    from shared.core.settings import Settings

API = "api"  # stands for the channel of every message that comes over REST
_REASON_CHARACTERS = 300
_NO_ANSWER = (OSError, TimeoutError, httptools.HttpParserError)
_TORN = "a process died in a commit; Litestream begins with a full copy, try again in a moment"
_NOT_OURS = "the replica has no full copy yet, or its lease has run out: is infra.replicate well?"


class Replication:
    """Asks Litestream; one object for a process and its event loop. With every channel ``local`` it opens nothing.

    Args:
        settings: ``durability``, ``litestream_socket``, ``replication_timeout_ms``, ``db``.
        channels: the platforms whose names, and whose accounts, ``durability`` may use.

    Raises:
        ConfigInvalid: the setting names an unknown channel, or no socket is set.
    """

    def __init__(self, settings: "Settings", channels: Iterable[str]) -> None:
        self._levels = parse_levels(settings.durability)
        known = {API, *channels}
        if not {EVERY_OTHER, *known}.issuperset(map(accounts.platform_of, self._levels)):
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
        of_platform = self._levels.get(accounts.platform_of(channel), self._levels[EVERY_OTHER])
        return self._levels.get(channel, of_platform) == "replicated"

    async def confirm(self, channel: str) -> None:
        """Return when the commits of this process so far may be acknowledged to *channel*; at once if ``local``.

        Call it after the commit and before the 2xx, for a duplicate as well: the first delivery may have been
        committed and not replicated. REST is the channel ``api``::

            await self.writer.run(work)
            await self.replication.confirm(replication.API)  # NotReplicated: 503 with Retry-After

        Raises:
            NotReplicated: Litestream did not answer, or said no, within ``replication_timeout_ms``; or it replicates
                to a prefix that no restore may read. The rows stay, and are replicated as soon as possible.
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
            problem = f"Litestream did not finish within {self._limit_s:g} s: is the bucket well?"
        if problem is not None:
            raise NotReplicated(problem)

    async def close(self) -> None:
        """Stop asking; callers that still wait get NotReplicated."""
        if self._asking is not None:
            self._asking.cancel()
            with suppress(asyncio.CancelledError):
                await self._asking
        _settle(self._waiting, "this function is stopping")

    async def _ask(self) -> None:
        """Ask again and again, as long as a caller waits."""
        try:
            while self._waiting:
                together, self._waiting = self._waiting, []
                if all(answer.done() for answer in together):
                    continue  # they have stopped waiting
                problem: str | None = "the question to Litestream was cut off"
                try:
                    problem = await self._sync()
                finally:
                    _settle(together, problem)
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
    """Litestream's answer: the positions of the database and of the replica."""

    txid: int
    replicated_txid: int = 0


async def sync(socket: Path, database: Path, limit_s: float) -> int:
    """Have everything committed so far brought to the replica; return the position there.

    Litestream reads both positions when it has finished. By then its own monitor may have taken in newer commits, so a
    replica that is behind is no "no" yet. A second answer tells whether it has reached the position of the first.

    Source: https://litestream.io/reference/ipc/#post-sync

    Args:
        database: absolute, as Litestream calls it.

    Raises:
        NotReplicated: the commits are not known to be there; says why.
    """
    body = msgspec.json.encode({"path": str(database), "wait": True, "timeout": math.ceil(limit_s)})
    try:
        async with asyncio.timeout(limit_s):
            synced, text = await _asked(socket, body)
            wanted = 0 if synced is None else synced.txid
            if synced is not None and synced.replicated_txid < wanted:
                synced, text = await _asked(socket, body)
    except TimeoutError:
        raise NotReplicated(f"Litestream did not finish within {limit_s:g} s: is the bucket well?") from None
    except _NO_ANSWER as error:
        raise _unanswered(socket, error) from None
    if synced is None or synced.replicated_txid < wanted:
        raise NotReplicated(text)
    return synced.replicated_txid


async def read_log(socket: Path, database: Path, limit_s: float) -> int:
    """Have Litestream read everything committed so far, without the bucket; return the position after it.

    Args:
        database: absolute, as Litestream calls it.

    Raises:
        NotReplicated: it is not known to have read it; says why.
    """
    return (await read_positions(socket, database, limit_s))[0]


async def read_positions(socket: Path, database: Path, limit_s: float) -> tuple[int, int]:
    """The position of the database, after what is committed so far, and that of the replica. It uploads nothing.

    Args:
        database: absolute, as Litestream calls it.

    Raises:
        NotReplicated: Litestream does not answer; says why.
    """
    body = msgspec.json.encode({"path": str(database), "wait": False, "timeout": math.ceil(limit_s)})
    try:
        async with asyncio.timeout(limit_s):
            synced, text = await _asked(socket, body)
    except _NO_ANSWER as error:
        raise _unanswered(socket, error) from None
    if synced is None:
        raise NotReplicated(text)
    return synced.txid, synced.replicated_txid


def _unanswered(socket: Path, error: Exception) -> NotReplicated:
    return NotReplicated(f"Litestream does not answer at {socket} ({type(error).__name__}): does infra.replicate run?")


async def _asked(socket: Path, body: bytes) -> tuple[_Synced | None, str]:
    """Litestream's answer, if it is a position; and its text."""
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
    """Reads one whole HTTP answer."""

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


def _settle(waiting: Iterable["asyncio.Future[str | None]"], problem: str | None) -> None:
    for answer in waiting:
        if not answer.done():
            answer.set_result(problem)
