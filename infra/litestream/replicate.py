"""Keeps Litestream replicating: ``python -m infra.replicate``, with the environment of ``infra/litestream.yml``.

It takes the replica's lease and runs Litestream under a supervisor (``infra/litestream/supervisor.py``). Run
``infra.restore`` before it. When another machine has taken the lease, Litestream is killed at once and this program
ends. With ECS, and with systemd's ``BindsTo=``, everything else on the machine then ends too.

Ends with Litestream's own code after SIGTERM or SIGINT, at which Litestream sends the last rows; 73 when another
machine has the lease, or took it; else as ``infra.restore``.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw

from infra.litestream.lease import Lease
from infra.litestream.prepare import Ready, prepare_replication
from infra.litestream.replica_settings import (
    replica_url,
    retention_ms_from,
    setting,
    upload_every_from,
    verify_every_ms_from,
)
from infra.litestream.restore import STORE_AWAY, exit_code, lock_replication, own_lease
from infra.litestream.supervision.trouble_report import TroubleReport
from infra.litestream.supervisor import Fenced, LitestreamSupervisor
from shared.core import logs
from shared.core.errors import PostroomError
from shared.db.replica.litestream_program import environment_for, program

CONFIG_FILE = "infra/litestream.yml"
_AGAIN_S = 1.0  # between two attempts to reach the bucket at the start

log = logs.get()

_LEVELS = {
    "replicate.begun": "info",  # the prefix has its first full copy
    "replicate.behind": "error",
    "replicate.caught_up": "info",
    "replicate.mending": "error",
    "replicate.standing_still": "error",  # Litestream is killed, and another begins with a full copy
    "replicate.doubtful": "error",  # Litestream is killed, and another begins with a full copy
    "replicate.litestream_ended": "error",
    "replicate.waiting": "error",  # before Litestream can be started again
    "replicate.litestream_started": "info",
    "replicate.lease_unsure": "error",
    "replicate.lease_renewed": "info",
    "replicate.removed": "info",  # an old prefix
    "replicate.cant_remove": "warning",
    "replicate.verified": "info",
    "replicate.differs": "error",  # Litestream is killed, and another begins with a full copy
    "replicate.not_verified": "warning",
    "replicate.fenced": "critical",
}


def log_event(event: str, **facts: Any) -> None:
    """Log one event of the supervisor at its level."""
    getattr(log, _LEVELS[event])(event, **facts)


async def _run() -> int:
    url, database = replica_url(), Path(setting("POSTROOM_DB"))
    check_settings()
    ended = signalled()
    lock = lock_replication(database)
    lease = own_lease(database, url)
    ready = await _ready(database, url, lease, ended)
    if ready is None:
        return 0
    code = await keep_replicating(database, url, lease, ready, ended)
    lock.release()
    return code


def check_settings() -> None:
    """Refuse wrong settings before the lease is taken.

    Raises:
        ConfigInvalid
    """
    setting("POSTROOM_LITESTREAM_SOCKET")
    retention_ms_from(os.environ)
    upload_every_from(os.environ)
    verify_every_ms_from(os.environ)


def signalled() -> "asyncio.Future[None]":
    """Done at the first SIGTERM or SIGINT from now on."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    return ended


async def _nothing() -> None:
    """The start of Litestream is told to nobody."""


async def keep_replicating(
    database: Path,
    url: str,
    lease: Lease,
    ready: Ready,
    ended: "asyncio.Future[None]",
    on_start: Callable[[], Awaitable[None]] = _nothing,
    running: asyncio.subprocess.Process | None = None,
) -> int:
    """Run Litestream under its supervisor until *ended* is done; Litestream's exit code.

    Args:
        lease: taken, when :func:`infra.litestream.prepare.prepare_replication` made *ready*.
        on_start: called once, when Litestream runs.
        running: a Litestream that replicates to the current prefix already.

    Raises:
        Fenced: another machine has the lease; Litestream was killed.
    """
    supervisor = LitestreamSupervisor(
        [program(), "replicate", "-config", CONFIG_FILE],
        replica=url,
        environment=environment_for(os.environ),
        database=database,
        control=Path(setting("POSTROOM_LITESTREAM_SOCKET")),
        lease=lease,
        report=log_event,
        retention_ms=retention_ms_from(os.environ),
        verify_ms=verify_every_ms_from(os.environ),
    )
    log.info("replicate.started", replica=ready.url, owner=lease.owner.id)
    await supervisor.start(running)
    await on_start()
    lost = asyncio.create_task(supervisor.wait())
    await asyncio.wait([ended, lost], return_when=asyncio.FIRST_COMPLETED)
    code = await supervisor.stop()
    if lost.done():
        await lost
    lost.cancel()
    return code


async def _ready(database: Path, url: str, lease: Lease, ended: "asyncio.Future[None]") -> Ready | None:
    """Wait until the bucket answers, then prepare; None when a signal ended it before that."""
    waiting = TroubleReport(log_event, "replicate.waiting")
    while not ended.done():
        try:
            return await prepare_replication(database, url, lease, os.environ, may_restore=False)
        except STORE_AWAY as error:
            waiting.see(str(error))
        await asyncio.wait([ended], timeout=_AGAIN_S)
    return None


def main() -> int:
    """The program; see the module's docstring."""
    logs.configure("replicate")
    try:
        return asyncio.run(_run())
    except Fenced as error:
        return exit_code(error)
    except PostroomError as error:
        log.error("replicate.refused", reason=str(error))
        return exit_code(error)
    except OSError as error:
        log.error("replicate.refused", reason=f"{error.strerror}: {error.filename}")
        return os.EX_UNAVAILABLE
    except apsw.Error as error:  # a full disk, say
        log.error("replicate.refused", reason=f"{os.environ.get('POSTROOM_DB')}: {error}")
        return os.EX_UNAVAILABLE
