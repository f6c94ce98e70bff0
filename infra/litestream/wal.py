"""What the supervisor does to the database's log (the WAL) while no Litestream runs."""

import asyncio
from pathlib import Path

from infra.litestream.restored_files import is_missing
from shared.core.errors import InUse
from shared.db.engine import checkpoints, write_gate
from shared.db.engine.connection import open_connection, rows, scalar
from shared.db.engine.lock import WorkerLock

_GATE_LIMIT_S = 10.0


def mend(database: Path) -> None:
    """Move what is only in the WAL into the file, while no Litestream holds that up.

    After the crash of a writer, Litestream 0.5.17 may decide to copy the whole database, look in the file for a page
    that is still in the WAL only, and fail for ever: "write ltx from db: read database page 136: EOF". PASSIVE waits
    for no process and holds up none; Litestream then makes its copy.
    """
    conn = open_connection(database)
    try:
        rows(conn, "PRAGMA wal_checkpoint(PASSIVE)")
    finally:
        conn.close()


def begin_log(database: Path) -> None:
    """Write a page to the log, so that no writer begins the log again under the first copy of a starting Litestream.

    Litestream reads the log to hold it. With all of the log in the database already, its read transaction would look at
    the database alone, and would keep no writer from writing over what Litestream is about to read.

    Raises:
        InUse: a process stays inside a transaction.
    """
    if is_missing(database):
        return
    with write_gate.reset_marks(database, _GATE_LIMIT_S):
        conn = open_connection(database)
        try:
            rows(conn, f"PRAGMA user_version = {scalar(conn, 'PRAGMA user_version')}")
        finally:
            conn.close()


async def lock_checkpoints(database: Path, limit_s: float) -> WorkerLock:
    """Wait until no other process checkpoints; the lock, which the caller has then.

    Raises:
        InUse: another process has it for longer than *limit_s*.
    """
    lock = checkpoints.lock(database)
    try:
        await asyncio.wait_for(lock.acquire(), limit_s)
    except TimeoutError:
        raise InUse(f"another Litestream runs on {database}: end it first") from None
    return lock
