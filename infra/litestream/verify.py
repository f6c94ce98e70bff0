"""Proves that a restore would be the live database: ``python -m infra.verify``, beside a running ``infra.replicate``.

With the environment of ``infra/litestream.yml``. Writers are kept for one sync, a moment; from then the position that
Litestream calls replicated, and the state that a reader of the live file sees, are the same. That position is restored
to a folder beside the database, which needs the room, and is compared with it row by row, in every table.

Whoever writes in a shell does not wait with the others, and a bucket may stumble: a difference is said only if a second
comparison finds one too.

Says one line, and ends with 0, they are equal; 65, they differ, or the replica does not restore; 69, nothing could be
compared, and nothing is known to be wrong with the replica; 78 the environment is wrong.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import apsw

from infra.litestream import table_digests
from infra.litestream.prepare import RESTORE_LIMIT_S
from infra.litestream.restore import AWAY, exit_code, setting
from infra.litestream.restore_command import ReplicaRefused, RestoreUnfinished, fetch, is_missing
from infra.litestream.table_digests import Difference, Table
from infra.processes import kill_group, spawn
from shared.core import logs
from shared.core.durations import parse_ms
from shared.core.errors import ConfigInvalid, NotReplicated, PostroomError
from shared.db.engine.connection import no_writers, open_connection, scalar
from shared.db.engine.lock import WorkerLock
from shared.replica import lease_record, sync_permit
from shared.replica.lease_record import Place
from shared.replica.object_store import ObjectStore, open_store
from shared.replica.sync import sync

EQUAL, DIFFERS, NOT_VERIFIED = "verify.equal", "verify.differs", "verify.not_verified"
EVERY_MS = 24 * 3_600_000
_PATIENCE_S, _SYNC_LIMIT_S = 30.0, 5.0  # with Litestream, while nobody waits, and while writers do
_POSITION_KEPT_S = 3000.0  # l0-retention in infra/litestream.yml is an hour; a position older than that may be gone
_SPARE = 256 * 1024 * 1024  # bytes that stay free: the log grows meanwhile
_NO_ROOM = "no space left"  # in Litestream's words
_LOWEST_PRIORITY = 19
_LONGEST_REASON = 1000
_OF_EVERY_LINE = ("event", "function", "level", "timestamp")

log = logs.get()


class NotVerified(PostroomError):
    """Nothing could be compared; the message says why. That says nothing of the replica."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared, and what was found.

    Args:
        position: of the replica, sixteen hexadecimal digits.
        rows, bytes: of the live database.
        kept_s: for how long writers were kept.
        damage: why the replica does not restore, if it does not.
    """

    replica: str
    position: str
    tables: int
    rows: int
    bytes: int
    kept_s: float
    seconds: float
    differences: tuple[Difference, ...] = ()
    damage: str | None = None

    @property
    def is_equal(self) -> bool:
        return self.damage is None and not self.differences


@dataclass(frozen=True, slots=True)
class _Live:
    """The live database, at a position that Litestream calls replicated since *at_s*."""

    position: str
    tables: dict[str, Table]
    bytes: int
    at_s: float
    kept_s: float


def every_ms_from(environ: Mapping[str, str]) -> int:
    """``POSTROOM_REPLICA_VERIFY`` in ms; 0: never.

    Raises:
        ConfigInvalid
    """
    text = environ.get("POSTROOM_REPLICA_VERIFY") or "24h"
    try:
        return 0 if text == "0" else parse_ms(text)
    except ValueError:
        raise ConfigInvalid(
            f"POSTROOM_REPLICA_VERIFY: {text!r} is neither 0 (never) nor a duration such as 24h or 30m"
        ) from None


def verify(
    database: Path,
    url: str,
    control: Path,
    environ: Mapping[str, str],
    *,
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    patience_s: float = _PATIENCE_S,
) -> Comparison:
    """Compare the live database with what the replica at *url* restores to.

    Args:
        database: absolute, as Litestream calls it.
        control: Litestream's control socket.
        free: the bytes that are free in a folder.
        patience_s: how long Litestream may take to bring out what has been written so far.

    Raises:
        NotVerified, ConfigInvalid
    """
    if is_missing(database):
        raise NotVerified(f"there is no database {database}")
    comparing = _Comparing(database, url, control, environ, free, patience_s)
    try:
        with _alone(database) as is_alone:
            if not is_alone:
                raise NotVerified("another comparison is at work")
            found = comparing.compare()
            return found if found.is_equal else comparing.compare()
    except (*AWAY, lease_record.PointerUnreadable, NotReplicated) as error:
        raise NotVerified(str(error)) from None
    except apsw.Error as error:  # the live one: a full disk, say
        raise NotVerified(f"{database}: {error}") from None
    except OSError as error:
        raise NotVerified(_why(error)) from None


async def apart(database: Path, url: str, control: Path, environment: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Do it in a process of its own, which ends with us: the event that it tells, one of three, and the facts."""
    told = {
        "POSTROOM_DB": str(database),
        "POSTROOM_REPLICA_URL": url,
        "POSTROOM_LITESTREAM_SOCKET": str(control),
    }
    try:
        process = await spawn([sys.executable, "-m", "infra.verify"], environment={**environment, **told})
    except OSError as error:  # no memory, say
        return NOT_VERIFIED, {"reason": _why(error)}
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:  # we are called off
            kill_group(process.pid)
            await process.wait()
        clear(database)  # it may have been killed
    return said_in(output.decode("utf-8", "replace"))


def clear(database: Path) -> None:
    """Remove what a comparison that was killed has left."""
    with contextlib.suppress(OSError), _alone(database):
        pass


def _why(error: OSError) -> str:
    return f"{error.strerror}: {error.filename}" if error.filename else str(error)


@contextlib.contextmanager
def _alone(database: Path) -> Iterator[bool]:
    """The right to compare, if nobody has it; what is restored meanwhile does not stay."""
    right = WorkerLock(database, "verify")
    if not right.try_acquire():
        yield False
        return
    try:
        shutil.rmtree(_folder(database), ignore_errors=True)
        yield True
    finally:
        shutil.rmtree(_folder(database), ignore_errors=True)
        right.release()


def _folder(database: Path) -> Path:
    return database.with_name(f"{database.name}.verifying")


@dataclass(frozen=True, slots=True)
class _Comparing:
    """One live database and its replica."""

    database: Path
    url: str
    control: Path
    environ: Mapping[str, str]
    free: Callable[[Path], int]
    patience_s: float

    def compare(self) -> Comparison:
        begun_s = time.monotonic()
        store = open_store(self.url, self.environ)
        place = _present(store)
        live = self._live()
        os.nice(_LOWEST_PRIORITY)  # not before: a slow reader makes the log grow
        damage, restored = self._restored(place, live)
        if _present(store) != place:
            raise NotVerified("Litestream began a new place meanwhile: try again")
        return Comparison(
            replica=lease_record.at(self.url, place.prefix),
            position=live.position,
            tables=len(live.tables),
            rows=sum(table.rows for table in live.tables.values()),
            bytes=live.bytes,
            kept_s=round(live.kept_s, 3),
            seconds=round(time.monotonic() - begun_s, 3),
            differences=() if damage else tuple(table_digests.differences(live.tables, restored)),
            damage=damage,
        )

    def _live(self) -> _Live:
        conn = open_connection(self.database, readonly=True)
        try:
            self._sync(self.patience_s)  # most of it, while nobody waits
            with no_writers(conn):
                kept_s = time.monotonic()
                position = self._sync(_SYNC_LIMIT_S)
                if not sync_permit.is_given(self.control):
                    raise NotVerified("the replica has no whole copy yet, or its lease has run out")
                conn.execute("BEGIN")
                scalar(conn, "SELECT count(*) FROM sqlite_schema")  # now it looks at the state of this moment
                at_s = time.monotonic()
            size = scalar(conn, "PRAGMA page_count") * scalar(conn, "PRAGMA page_size")
            self._need_room(size)
            return _Live(f"{position:016x}", table_digests.read(conn), size, at_s, at_s - kept_s)
        finally:
            conn.close()  # and with it the transaction

    def _sync(self, limit_s: float) -> int:
        return asyncio.run(sync(self.control, self.database, limit_s))

    def _need_room(self, needed: int) -> None:
        folder = self.database.parent
        missing = needed + _SPARE - self.free(folder)
        if missing > 0:
            raise NotVerified(
                f"{folder} has no room for a second copy of the database: {-(-missing // 1_000_000)} MB are missing"
            )

    def _restored(self, place: Place, live: _Live) -> tuple[str | None, dict[str, Table]]:
        """Why it does not restore, or what is in it when it does."""
        folder = _folder(self.database)
        folder.mkdir(mode=0o700, exist_ok=True)
        target = folder / "restored.db"
        work = fetch(
            lease_record.at(self.url, place.prefix), target, self.environ, RESTORE_LIMIT_S, "-txid", live.position,
            check="full",
        )  # fmt: skip
        try:
            if asyncio.run(work) is not None:
                return None, _read(target)
            damage = f"files are missing in the replica: position {live.position} does not restore"
        except RestoreUnfinished as error:
            raise NotVerified(str(error)) from None
        except (ReplicaRefused, apsw.CorruptError, apsw.NotADBError) as error:
            damage = str(error)
        if _NO_ROOM in damage:
            raise NotVerified(damage)
        if time.monotonic() - live.at_s > _POSITION_KEPT_S:
            raise NotVerified(f"it took so long that position {live.position} may not be kept any more: try again")
        return damage, {}


def _present(store: ObjectStore) -> Place:
    there = lease_record.read(store)
    if there is None or not there.is_begun:
        raise NotVerified("the replica has no whole copy yet")
    return there.place


def _read(database: Path) -> dict[str, Table]:
    conn = open_connection(database, readonly=True)
    try:
        return table_digests.read(conn)
    finally:
        conn.close()


def facts(found: Comparison) -> dict[str, Any]:
    """For a line of the log."""
    told = asdict(found)
    if found.is_equal or found.damage is not None:
        del told["differences"]
    if found.damage is None:
        del told["damage"]
    return told


def said_in(output: str) -> tuple[str, dict[str, Any]]:
    """What a run of this program said."""
    for line in reversed(output.splitlines()):
        with contextlib.suppress(ValueError, AttributeError):
            said = json.loads(line)
            told = {name: fact for name, fact in said.items() if name not in _OF_EVERY_LINE}
            return (said["event"] if said.get("event") in (EQUAL, DIFFERS) else NOT_VERIFIED), told
    return NOT_VERIFIED, {"reason": f"it ended before it had compared: {output[-_LONGEST_REASON:].strip()}"}


def _terminated(*_: object) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)  # by way of all that is to be tidied


def main() -> int:
    """The program; see the module's docstring."""
    logs.configure("verify")
    os.umask(0o077)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        database = Path(setting("POSTROOM_DB")).absolute()
        url, control = setting("POSTROOM_REPLICA_URL"), Path(setting("POSTROOM_LITESTREAM_SOCKET"))
        found = verify(database, url, control, os.environ)
    except NotVerified as error:
        log.warning(NOT_VERIFIED, reason=str(error))
        return os.EX_UNAVAILABLE
    except PostroomError as error:
        log.error("verify.refused", reason=str(error))
        return exit_code(error)
    if found.is_equal:
        log.info(EQUAL, **facts(found))
        return 0
    log.error(DIFFERS, **facts(found))
    return os.EX_DATAERR
