"""Waits until a commit is in the replica, for callers whose acknowledgement promises that.

Litestream copies every commit by itself, a moment later. Where ``POSTROOM_DURABILITY`` says ``replicated``, a message
is acknowledged only after two answers. Litestream says over its control socket that it is in the replica. Its
supervisor says that the replica is ours (``shared/db/replica/sync_permit.py``).

``SharedQuestion`` asks once for all callers that wait at the same time.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from shared.core import accounts
from shared.core.durability import EVERY_OTHER, parse_levels
from shared.core.errors import ConfigInvalid, NotReplicated
from shared.core.time.patience import Patience
from shared.db.engine import write_gate
from shared.db.replica import control_socket, sync_permit
from shared.db.replica.control_socket import NO_ANSWER, Positions
from shared.db.replica.shared_question import SharedQuestion

if TYPE_CHECKING:  # the supervisor only asks, and needs nothing that reads settings
    from shared.core.settings import Settings

API = "api"  # stands for the channel of every message that comes over REST
_TORN = "a process died in a commit; Litestream begins with a full copy, try again in a moment"
_NOT_OURS = "the replica has no full copy yet, or its lease has run out: is infra.replicate running?"


class Replication:
    """Asks Litestream; one object for a process and its event loop. With every channel ``local`` it opens nothing.

    ``limit_s`` is the longest wait of ``confirm``.

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
        self.limit_s = settings.replication_timeout_ms / 1000
        self._patience = Patience(self.limit_s)
        self._question = None if socket is None else _question(socket, settings.db.absolute(), self.limit_s)

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
        if not self.is_awaited(channel) or self._question is None:
            return
        try:
            problem = await self._patience.wait(self._question.wait())
        except TimeoutError:
            problem = control_socket.too_slow(self.limit_s)
        if problem is not None:
            raise NotReplicated(problem)

    async def close(self) -> None:
        """Stop asking; callers that still wait get NotReplicated."""
        if self._question is not None:
            await self._question.close()


def _question(socket: Path, database: Path, limit_s: float) -> SharedQuestion:
    def check() -> str | None:
        try:
            if write_gate.is_torn(database):
                return _TORN
        except OSError as error:
            return f"the marks of {database} can't be read: {type(error).__name__}"
        return None if sync_permit.is_valid(socket) else _NOT_OURS

    return SharedQuestion(socket, control_socket.sync_request(database, limit_s, wait=True), limit_s, check)


async def sync(socket: Path, database: Path, limit_s: float) -> int:
    """Have everything committed so far brought to the replica; return the position there.

    Litestream reads both positions when it has finished. By then its own monitor may have taken in newer commits, so a
    replica that is behind is no "no" yet. A second answer tells whether it has reached the position of the first.

    Args:
        database: absolute, as Litestream calls it.

    Raises:
        NotReplicated: the commits are not known to be there; says why.
    """
    request = control_socket.sync_request(database, limit_s, wait=True)
    try:
        async with asyncio.timeout(limit_s):
            synced, text = await _positions(socket, request)
            wanted = 0 if synced is None else synced.txid
            if synced is not None and synced.replicated_txid < wanted:
                synced, text = await _positions(socket, request)
    except TimeoutError:
        raise NotReplicated(control_socket.too_slow(limit_s)) from None
    except NO_ANSWER as error:
        raise NotReplicated(control_socket.no_answer(socket, error)) from None
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
    try:
        async with asyncio.timeout(limit_s):
            found, text = await _positions(socket, control_socket.sync_request(database, limit_s, wait=False))
    except NO_ANSWER as error:
        raise NotReplicated(control_socket.no_answer(socket, error)) from None
    if found is None:
        raise NotReplicated(text)
    return found.txid, found.replicated_txid


async def _positions(socket: Path, request: bytes) -> tuple[Positions | None, str]:
    return control_socket.read_positions(*await control_socket.ask(socket, request))
