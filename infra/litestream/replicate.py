"""Keeps Litestream replicating: ``python -m infra.replicate``, with the environment of ``infra/litestream.yml``.

It takes the replica's lease, and has Litestream replicate to the present prefix: see
``infra/litestream/supervisor.py``. ``infra.restore`` must have run before it. When somebody else has taken the lease,
Litestream is killed at once and this ends: with ECS, and with systemd's ``BindsTo=``, everything else on the machine
does too.

Ends with Litestream's own code after SIGTERM or SIGINT, on which Litestream brings the last rows out; 73 when the lease
is somebody else's, or was lost; else as ``infra.restore``.
"""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import apsw

from infra.litestream.lease import Lease
from infra.litestream.prepare import Ready, prepare
from infra.litestream.restore import AWAY, be_alone, exit_code, own_lease, setting
from infra.litestream.restore_command import environment_for, program
from infra.litestream.retention import retention_from
from infra.litestream.supervisor import Fenced, Keeper
from infra.litestream.verify import every_ms_from
from shared.core import logs
from shared.core.errors import PostroomError

CONFIG_FILE = "infra/litestream.yml"
_AGAIN_S = 1.0  # between two attempts to reach the bucket at the start

log = logs.get()

_LEVELS = {
    "replicate.begun": "info",  # the place has its first whole copy
    "replicate.behind": "error",
    "replicate.caught_up": "info",
    "replicate.mending": "error",
    "replicate.doubtful": "error",  # it is killed, and begins with a whole copy
    "replicate.litestream_ended": "error",
    "replicate.waiting": "error",  # with starting it again
    "replicate.litestream_started": "info",
    "replicate.lease_unsure": "error",
    "replicate.lease_renewed": "info",
    "replicate.removed": "info",  # an earlier place
    "replicate.cant_remove": "warning",
    "replicate.verified": "info",
    "replicate.differs": "error",  # it is killed, and begins with a whole copy
    "replicate.not_verified": "warning",
    "replicate.fenced": "critical",
}


def tell_log(event: str, **facts: Any) -> None:
    """What happened, as a line of the log."""
    getattr(log, _LEVELS[event])(event, **facts)


async def _run() -> int:
    url, database = setting("POSTROOM_REPLICA_URL"), Path(setting("POSTROOM_DB"))
    control = Path(setting("POSTROOM_LITESTREAM_SOCKET"))
    kept_ms, verify_ms = retention_from(os.environ), every_ms_from(os.environ)
    argv = [program(), "replicate", "-config", CONFIG_FILE]
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    alone = be_alone(database)
    lease = own_lease(database, url)
    ready = await _ready(database, url, lease, ended)
    if ready is None:
        return 0
    keeper = Keeper(
        argv,
        replica=url,
        environment=environment_for(os.environ),
        database=database,
        control=control,
        lease=lease,
        tell=tell_log,
        kept_ms=kept_ms,
        verify_ms=verify_ms,
    )
    log.info("replicate.started", replica=ready.url, owner=lease.owner.id)
    await keeper.start()
    lost = asyncio.create_task(keeper.wait())
    await asyncio.wait([ended, lost], return_when=asyncio.FIRST_COMPLETED)
    code = await keeper.stop()
    alone.release()
    if lost.done():
        await lost
    lost.cancel()
    return code


async def _ready(database: Path, url: str, lease: Lease, ended: "asyncio.Future[None]") -> Ready | None:
    """The place to replicate to, when the bucket answers; None when we were asked to end before that."""
    is_told = False
    while not ended.done():
        try:
            return await prepare(database, url, lease, os.environ, may_restore=False)
        except AWAY as error:
            if not is_told:
                log.error("replicate.waiting", reason=str(error))
            is_told = True
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
