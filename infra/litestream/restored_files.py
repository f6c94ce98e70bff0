"""Database files: restored from a replica, and what a file says of its own history."""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.litestream import local_state
from infra.processes import spawn, stop
from shared.core.errors import DatabaseRefused, PermanentError, PostroomError
from shared.db.engine import meta, schema
from shared.db.engine.connection import open_connection, rows, scalar
from shared.db.engine.owner_only import UMASK
from shared.db.queue import epochs
from shared.db.replica.litestream_program import environment_for, restore_command


class FileRefused(PostroomError):
    """The file is not the newest state, or belongs to another history; nothing was changed."""


class ReplicaRefused(PermanentError):
    """The replica holds something and can't be restored; nothing was changed."""


class RestoreUnfinished(ReplicaRefused):
    """The restore took too long, or was killed; that says nothing of the replica."""


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    """What a database file says of its own history: its epoch, and the id of its newest event."""

    epoch: str | None
    newest_event_id: int


def is_missing(database: Path) -> bool:
    """Whether there is no database; a file without a byte is none, whatever left it there."""
    return not database.exists() or database.stat().st_size == 0


def read_facts(database: Path) -> HistoryFacts:
    """What the file says of its history.

    Raises:
        DatabaseRefused: the file is damaged, or another program made or changed its schema.
        DatabaseUnavailable: the file can't be opened at the moment.
    """
    with schema.explained(database):
        conn = open_connection(database, readonly=True)
        try:
            if schema.inspect(conn, database) == 0:
                return HistoryFacts(None, 0)
            return HistoryFacts(meta.get(conn, "epoch"), scalar(conn, "SELECT max(id) FROM events") or 0)
        finally:
            conn.close()


def read_restored_facts(restored: Path, url: str) -> HistoryFacts:
    """What a file that was restored from *url* says of its history.

    Raises:
        ReplicaRefused: the replica is another program's; the restored file is removed.
    """
    try:
        return read_facts(restored)
    except DatabaseRefused as error:
        remove(restored)
        raise ReplicaRefused(
            f"what {url} restores to {error.reason}. Check POSTROOM_REPLICA_URL; nothing was changed"
        ) from None


async def restore(
    url: str, target: Path, environment: Mapping[str, str], limit_s: float, *position: str, check: str = "quick"
) -> str | None:
    """Restore a prefix to *target*; the position that it has then, or None when Litestream finds nothing there.

    Args:
        position, check: as for :func:`shared.db.replica.litestream_program.restore_command`.

    Raises:
        RestoreUnfinished, ReplicaRefused: it could not; *target* is not there.
    """
    remove(target)
    process = await spawn(
        restore_command(url, target, *position, check=check), environment=environment_for(environment), umask=UMASK
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), limit_s)
    except (TimeoutError, asyncio.CancelledError) as error:
        await stop(process, timeout_s=1)
        remove(target)
        if isinstance(error, asyncio.CancelledError):
            raise
        raise RestoreUnfinished(f"restoring from {url} took more than {limit_s:.0f} s; nothing was changed") from None
    text = output.decode("utf-8", "replace").strip()
    if process.returncode != 0:
        remove(target)
        kind = RestoreUnfinished if (process.returncode or 0) < 0 else ReplicaRefused
        raise kind(
            f"the replica can't be restored from {url}:\n    {text[-2000:]}\n"
            f"Nothing was changed, and nothing was started empty"
        )
    return None if is_missing(target) else _txid_in(text)


def write_epoch(database: Path, epoch: str) -> None:
    """Name the history that goes on from here, in the database itself.

    Raises:
        DatabaseRefused, DatabaseUnavailable
    """
    with schema.explained(database):
        conn = open_connection(database)
        try:
            if rows(conn, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'meta'"):
                epochs.name(conn, epoch)
        finally:
            conn.close()


def remove(database: Path) -> None:
    """Remove the file, and what SQLite and Litestream keep beside it."""
    for suffix in ("", "-wal", "-shm", ".tmp"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    local_state.remove(database)


def _txid_in(text: str) -> str:
    """The ``txid`` of the JSON that a restore prints after its log lines."""
    with contextlib.suppress(ValueError):
        return str(json.loads(text[text.index("{") : text.rindex("}") + 1]).get("txid", ""))
    return ""
