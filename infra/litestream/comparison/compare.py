"""Compares the live database with a restore of the same position, row by row; ``verify.py`` is the program."""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import apsw

from infra.litestream.comparison import proofs, table_digests
from infra.litestream.comparison.finding import Comparison
from infra.litestream.comparison.table_digests import TableDigest
from infra.litestream.prepare import RESTORE_LIMIT_S
from infra.litestream.replica_settings import POSITION_KEPT_MS
from infra.litestream.restore import STORE_AWAY
from infra.litestream.restored_files import ReplicaRefused, RestoreUnfinished, is_missing, restore
from shared.core.errors import NotReplicated, PostroomError
from shared.core.time import clock
from shared.db.engine.connection import open_connection, rows, scalar, writers_held
from shared.db.engine.lock import WorkerLock
from shared.db.engine.restore_proofs import MadeBy
from shared.db.replica import lease_record, sync_permit
from shared.db.replica.last_comparison import LastComparison
from shared.db.replica.lease_record import ReplicaPrefix, prefix_url
from shared.db.replica.object_store import ObjectStore, open_store
from shared.db.replica.sync import read_log, sync

_PATIENCE_S = 30.0  # with Litestream, while no writer waits
_ATTEMPTS = 40  # to find a moment in which Litestream has read all of the log
_HELD_S = 0.008  # how long writers wait at each attempt
_PAUSE_S = 0.1  # between two attempts
_SURELY_KEPT_S = POSITION_KEPT_MS / 1000 * 5 / 6
_SPARE = 256 * 1024 * 1024  # bytes that stay free: the log grows meanwhile
_NO_ROOM = "no space left"  # Litestream's words
_LOWEST_PRIORITY = 19


class NotVerified(PostroomError):
    """Nothing could be compared; the message says why. It says nothing of the replica."""


@dataclass(frozen=True, slots=True)
class _Live:
    """The live database, at the position that Litestream had read at *at_s*."""

    position: str
    tables: dict[str, TableDigest]
    bytes: int
    at_s: float
    kept_s: float


def compare_with_restore(
    database: Path,
    url: str,
    control: Path,
    environ: Mapping[str, str],
    *,
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    patience_s: float = _PATIENCE_S,
    made_by: MadeBy = "comparison",
) -> Comparison:
    """Compare the live database with what the replica at *url* restores to.

    Args:
        database: absolute, as Litestream calls it.
        control: Litestream's control socket.
        free: the bytes that are free in a folder.
        patience_s: how long Litestream may take to send what was written so far.
        made_by: for the record in ``restore_proofs``.

    Raises:
        NotVerified, ConfigInvalid
    """
    if is_missing(database):
        raise NotVerified(f"there is no database {database}")
    verification = _Verification(database, url, control, environ, free, patience_s)
    try:
        with _alone(database) as is_alone:
            if not is_alone:
                raise NotVerified(f"another comparison of {database} is running: wait for its end")
            found = verification.compare()
            found = found if found.is_equal else verification.compare()
            _remember(found, database)
            proofs.record_proof(database, proofs.of_comparison(found, made_by, clock.now_ms()))
            return found
    except (*STORE_AWAY, lease_record.LeaseRecordUnreadable, NotReplicated) as error:
        raise NotVerified(str(error)) from None
    except apsw.Error as error:  # the live one: a full disk, say
        raise NotVerified(f"{database}: {error}") from None
    except OSError as error:
        raise NotVerified(reason_of(error)) from None


def _remember(found: Comparison, database: Path) -> None:
    """Note the comparison for the API. It tells people who can't compare; nothing depends on it."""
    names = [each.table for each in found.differences]
    with contextlib.suppress(OSError):
        LastComparison(
            clock.now_ms(),
            found.position,
            found.tables,
            found.rows,
            names if found.damage is None else [],
            found.damage,
        ).write(database)


def remove_leftovers(database: Path) -> None:
    """Remove what a killed comparison left behind."""
    with contextlib.suppress(OSError), _alone(database):
        pass


def reason_of(error: OSError) -> str:
    return f"{error.strerror}: {error.filename}" if error.filename else str(error)


@contextlib.contextmanager
def _alone(database: Path) -> Iterator[bool]:
    """Hold the lock on comparing, if no other process has it; remove what is restored meanwhile."""
    lock = WorkerLock(database, "verify")
    if not lock.try_acquire():
        yield False
        return
    try:
        shutil.rmtree(_folder(database), ignore_errors=True)
        yield True
    finally:
        shutil.rmtree(_folder(database), ignore_errors=True)
        lock.release()


def _begin(conn: apsw.Connection) -> float:
    """Begin a transaction that sees the state of this moment; the moment."""
    conn.execute("BEGIN")
    scalar(conn, "SELECT count(*) FROM sqlite_schema")
    return time.monotonic()


def _version(conn: apsw.Connection) -> int:
    """A number that changes with each commit of another connection."""
    found: int = scalar(conn, "PRAGMA data_version")
    return found


def _folder(database: Path) -> Path:
    return database.with_name(f"{database.name}.verifying")


@dataclass(frozen=True, slots=True)
class _Verification:
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
        prefix = _current_prefix(store)
        live = self._live()
        restoring_s = time.monotonic()
        damage, restored = self._restore(prefix, live)
        restore_s = time.monotonic() - restoring_s
        if _current_prefix(store) != prefix:
            raise NotVerified("Litestream began a new prefix meanwhile: try again")
        return Comparison(
            replica=prefix_url(self.url, prefix.path),
            position=live.position,
            tables=len(live.tables),
            rows=sum(table.rows for table in live.tables.values()),
            bytes=live.bytes,
            kept_s=round(live.kept_s, 3),
            seconds=round(time.monotonic() - begun_s, 3),
            differences=() if damage else tuple(table_digests.differences(live.tables, restored)),
            damage=damage,
            restore_s=round(restore_s, 3),
        )

    def _live(self) -> _Live:
        self._sync()  # most of it, before writers wait
        copy = _folder(self.database) / "live.db"
        position, at_s, kept_s = self._copy_live(copy)
        os.nice(_LOWEST_PRIORITY)  # only now: a slow reader of the live file makes the log grow
        self._sync()
        if not sync_permit.is_valid(self.control):
            raise NotVerified("the replica has no full copy yet, or its lease has run out: is infra.replicate running?")
        size = copy.stat().st_size
        live = _Live(f"{position:016x}", _read(copy), size, at_s, kept_s)
        copy.unlink()  # there is room for one copy
        return live

    def _copy_live(self, target: Path) -> tuple[int, float, float]:
        """Copy the live file, page by page: a seventh of the time that reading all rows takes.

        As long as a reader looks at the live file, the log grows, and Litestream then has to move all of it at once.

        Returns:
            As :meth:`_begin_reading`.
        """
        target.parent.mkdir(mode=0o700, exist_ok=True)
        target.unlink(missing_ok=True)
        conn = open_connection(self.database, readonly=True)
        try:
            self._need_room(scalar(conn, "PRAGMA page_count") * scalar(conn, "PRAGMA page_size"))
            begun = self._begin_reading(conn)
            with contextlib.closing(apsw.Connection(str(target))) as copy:
                rows(copy, "PRAGMA synchronous = OFF")  # it need not outlive this process
                with copy.backup("main", conn, "main") as backup:
                    backup.step()
                rows(copy, "PRAGMA journal_mode = DELETE")
        finally:
            conn.close()  # this ends the transaction too
        return begun

    def _sync(self) -> None:
        asyncio.run(sync(self.control, self.database, self.patience_s))

    def _begin_reading(self, conn: apsw.Connection) -> tuple[int, float, float]:
        """Begin a transaction on the state of one position; the position, the instant, and how long writers waited.

        Litestream reads a log that is still for a moment. Where nothing is written meanwhile, no writer waits. Else
        writers wait for a moment; where that would be long, they go on, and it is tried again.
        """
        problem = ""
        with asyncio.Runner() as runner:
            for _ in range(_ATTEMPTS):
                version = _version(conn)
                position = runner.run(read_log(self.control, self.database, self.patience_s))
                at_s = _begin(conn)
                if _version(conn) == version:
                    return position, at_s, 0.0
                conn.execute("ROLLBACK")
                try:
                    with writers_held(conn):
                        held_s = time.monotonic()
                        position = runner.run(read_log(self.control, self.database, _HELD_S))
                        at_s = _begin(conn)
                    return position, at_s, at_s - held_s
                except NotReplicated as error:
                    problem = str(error)
                time.sleep(_PAUSE_S)
        raise NotVerified(
            f"Litestream did not read the log in the moment for which writers may wait, {_ATTEMPTS} times: {problem}. "
            "Compare again when less is written"
        )

    def _need_room(self, needed: int) -> None:
        folder = self.database.parent
        missing = needed + _SPARE - self.free(folder)
        if missing > 0:
            raise NotVerified(
                f"{folder} has no room for a second copy of the database: {-(-missing // 1_000_000)} MB are missing"
            )

    def _restore(self, prefix: ReplicaPrefix, live: _Live) -> tuple[str | None, dict[str, TableDigest]]:
        """Why the position does not restore, or the digests of what it restores to."""
        target = _folder(self.database) / "restored.db"
        source = prefix_url(self.url, prefix.path)
        work = restore(source, target, self.environ, RESTORE_LIMIT_S, "-txid", live.position, check="full")
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
        if time.monotonic() - live.at_s > _SURELY_KEPT_S:
            raise NotVerified(f"the restore took so long that position {live.position} may be gone by now: try again")
        return damage, {}


def _current_prefix(store: ObjectStore) -> ReplicaPrefix:
    there = lease_record.read(store)
    if there is None or not there.has_full_copy:
        raise NotVerified("the replica has no full copy yet: is infra.replicate running?")
    return there.current


def _read(database: Path) -> dict[str, TableDigest]:
    conn = open_connection(database, readonly=True)
    try:
        return table_digests.read(conn)
    finally:
        conn.close()
