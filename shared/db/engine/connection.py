"""Connections to the database, and write transactions behind the write gate.

Only apsw opens this file. The SQLite inside Python may be older than 3.51.3, which can corrupt the WAL when one process
writes while another checkpoints, as Litestream does. Nothing of ours truncates or restarts the WAL: a TRUNCATE beside
Litestream stalls every writer for the whole busy timeout. ``shared/db/engine/checkpoints.py`` says which process
checkpoints.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import apsw

from shared.core.errors import ConfigInvalid
from shared.core.time import clock
from shared.db.engine import owner_only
from shared.db.engine.checkpoints import WalBound
from shared.db.engine.write_gate import WriteGate

_OLDEST_SQLITE = (3, 51, 3)
_BUSY_STEP_S = 0.001  # constant: SQLite's own growing steps starve some writers (1.7 s against 0.03 s measured)
_BUSY_LIMIT_S = 10.0
_STATEMENTS = 256  # kept prepared; apsw counts uses, so each row of an executemany pushes one out

_gates: dict[str, WriteGate] = {}
_gates_lock = threading.Lock()


def open_connection(path: Path, *, readonly: bool = False) -> apsw.Connection:
    """Open the database at *path*, for use by one thread.

    Raises:
        ConfigInvalid: this apsw carries an SQLite that could corrupt the file.
    """
    # The loaded version: a distribution may link another one than apsw was compiled with.
    if tuple(map(int, apsw.sqlite_lib_version().split("."))) < _OLDEST_SQLITE:
        raise ConfigInvalid(
            f"apsw {apsw.apsw_version()} carries SQLite {apsw.sqlite_lib_version()}, which can corrupt a database "
            f"beside Litestream: install an apsw with SQLite 3.51.3 or newer"
        )
    if not readonly:
        owner_only.make_file(path)
    flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    conn = apsw.Connection(str(path), flags=flags, statementcachesize=_STATEMENTS)
    # Without it SQLite plans a statement that could use a partial index again at each bound value: twice the time.
    conn.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    # A damaged or foreign schema may call no function that has an effect: https://sqlite.org/security.html
    conn.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    conn.set_busy_handler(_BusyHandler())
    if not readonly:
        _use_wal(conn)
        conn.set_wal_hook(WalBound())
    conn.execute("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL").fetchall()
    return conn


def _use_wal(conn: apsw.Connection) -> None:
    """Switch a new file to a WAL, one process at a time.

    Of two processes that switch at once, SQLite refuses one without asking its busy handler, or each would wait for
    the other.
    """
    if scalar(conn, "PRAGMA journal_mode") == "wal":
        return
    gate = _gate(conn)
    gate.enter()
    try:
        conn.execute("PRAGMA journal_mode = WAL").fetchall()
    finally:
        gate.leave()


class _BusyHandler:
    """Waits for the lock in constant steps, up to a limit."""

    def __init__(self) -> None:
        self._deadline = 0.0

    def __call__(self, calls: int) -> bool:
        now = clock.monotonic_s()
        if calls == 0:
            self._deadline = now + _BUSY_LIMIT_S
        clock.pause(_BUSY_STEP_S)
        return now < self._deadline


def rows(
    conn: apsw.Connection, sql: str, parameters: Mapping[str, Any] | Sequence[Any] | None = None
) -> list[tuple[Any, ...]]:
    """All rows of a statement. While a half-read RETURNING lives, nothing commits and the write lock stays held."""
    return conn.execute(sql, parameters).fetchall()


def scalar(conn: apsw.Connection, sql: str, parameters: Mapping[str, Any] | Sequence[Any] | None = None) -> Any:
    """The first column of the first row, or None."""
    found = rows(conn, sql, parameters)
    return found[0][0] if found else None


def insert_into(table: str, columns: Sequence[str]) -> str:
    """An INSERT whose parameters have the order of *columns*: usually the fields of a NamedTuple, which it takes.

    By position, because binding by name costs 8 to 12 µs where the whole insert of a message takes 16.
    """
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608


class WouldWait(Exception):
    """Another writer is at work; nothing has begun."""


class HeldTime:
    """How long the last transaction had the write lock, its commit included: what other writers waited for.

    ``seconds`` is 0 if it did not get the lock. ``ended_s``: when the last one that got it gave it back, by the clock.
    """

    __slots__ = ("_begun_s", "_clock_s", "ended_s", "seconds")

    def __init__(self, clock_s: Callable[[], float] = clock.monotonic_s) -> None:
        self._clock_s = clock_s
        self._begun_s = 0.0
        self.ended_s = 0.0
        self.seconds = 0.0

    def reset(self) -> None:
        """From now on the lock is not held yet."""
        self.seconds = 0.0

    def begin(self) -> None:
        """The transaction has the lock."""
        self._begun_s = self._clock_s()

    def end(self) -> None:
        """The transaction gives the lock back. The writer that waits for it may take this thread's processor."""
        self.ended_s = self._clock_s()
        self.seconds = self.ended_s - self._begun_s


class transaction:
    """One write transaction, all or nothing, entered through the write gate. Keep it short, with nothing remote inside.

    It is IMMEDIATE, because a read that turns into a write fails at once when another process wrote in between. It
    can't stand inside another one: the gate would wait for itself.

    Args:
        waits: for other writers. Otherwise the block raises ``WouldWait`` before it begins, if there is one.
        held: notes how long it has the lock.
    """

    __slots__ = ("_conn", "_gate", "_held", "_waits")

    def __init__(self, conn: apsw.Connection, *, waits: bool = True, held: HeldTime | None = None) -> None:
        if conn.in_transaction:
            raise RuntimeError("a transaction inside a transaction: the caller has one open already")
        self._conn = conn
        self._gate = _gate(conn)
        self._held = held
        self._waits = waits

    def __enter__(self) -> None:
        if self._held is not None:
            self._held.reset()
        if self._waits:
            self._gate.enter()
        elif not self._gate.enter_now():
            raise WouldWait
        try:
            if self._waits:
                self._conn.execute("BEGIN IMMEDIATE")
            else:
                self._begin_now()
        except BaseException:
            try:
                self._roll_back()  # a signal may have come after BEGIN
            finally:
                self._gate.leave()
            raise
        if self._held is not None:
            self._held.begin()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._gate.commit(self._conn.execute)
        except BaseException:
            self._roll_back()
            raise
        else:
            if kind is not None:
                self._roll_back()
        finally:
            if self._held is not None:
                self._held.end()
            self._gate.leave()

    def _begin_now(self) -> None:
        self._conn.set_busy_handler(None)
        try:
            self._conn.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:  # Litestream, which does not take the gate
            raise WouldWait from None
        finally:
            self._conn.set_busy_handler(_BusyHandler())

    def _roll_back(self) -> None:
        if self._conn.in_transaction:  # a full disk or an I/O error may have ended it already
            self._conn.execute("ROLLBACK")


class savepoint:
    """A part of a transaction: an error within it undoes this part, and the rest stays.

    Where no transaction is open it is a whole one, without the write gate: its reads are of one instant. apsw's own
    ``with conn`` does the same, but replaces the error of a disk with one about the rollback.
    """

    __slots__ = ("_conn", "_is_over", "_is_whole")

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn
        self._is_over = False
        self._is_whole = False

    def __enter__(self) -> Self:
        self._is_whole = not self._conn.in_transaction
        self._conn.execute("SAVEPOINT part")
        return self

    def undo(self) -> None:
        """Undo this part; what follows belongs to the whole transaction."""
        if not self._is_over and self._conn.in_transaction:  # a full disk or an I/O error may have ended all of it
            self._is_over = True
            for sql in ("ROLLBACK",) if self._is_whole else ("ROLLBACK TO part", "RELEASE part"):
                self._conn.execute(sql)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.undo()
        elif not self._is_over:
            try:
                self._conn.execute("RELEASE part")
            except BaseException:
                self.undo()
                raise


@contextlib.contextmanager
def writers_held(conn: apsw.Connection, *, held: HeldTime | None = None) -> Iterator[None]:
    """Hold the write gate without a transaction. Litestream does not take the gate, and goes on.

    Args:
        held: notes for how long.
    """
    gate = _gate(conn)
    gate.enter()
    try:
        if held is not None:
            held.begin()
        yield
    finally:
        if held is not None:
            held.end()
        gate.leave()


@contextlib.contextmanager
def replacing(conn: apsw.Connection) -> Iterator[Callable[[apsw.Connection], None]]:
    """Hold the write gate. The call that it gives makes the database what another one is, in one commit."""
    gate = _gate(conn)

    def copy_pages(content: apsw.Connection) -> None:
        with conn.backup("main", content, "main") as backup:
            backup.step()

    gate.enter()
    try:
        yield lambda content: gate.commit(lambda _: copy_pages(content))
    finally:
        gate.leave()


def _gate(conn: apsw.Connection) -> WriteGate:
    name = conn.filename
    gate = _gates.get(name)
    if gate is None:
        with _gates_lock:
            gate = _gates.setdefault(name, WriteGate(Path(name)))
    return gate
