"""Brings a database of any earlier release up to this one: numbered files, applied once, each in a transaction.

Before the first of them a checked copy is kept (``copies.py``). A process that is killed on the way leaves the schema
of the last migration that was whole; the next start goes on from there, and keeps the copy from the beginning.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw

from shared.core.errors import DatabaseRefused, DatabaseTooNew
from shared.core.time import clock
from shared.db.engine import copies, file_system, meta, owner_only, schema
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.copies import Counts
from shared.db.engine.lock import WorkerLock

_BROKEN = "rows whose reference is broken"
_BEGAN_WITH = "upgrade_began_with"  # in `meta` while an upgrade is under way: the schema before it
# Statements that can change how many rows a table has; `meta` gets facts, and `edited` is a check.
_MOVES_ROWS = re.compile(r"^(DROP TABLE(?! edited)|DELETE FROM|INSERT INTO(?! edited| meta))", re.MULTILINE)


class Applied(NamedTuple):
    """One migration that was applied.

    Args:
        counts: the rows of each table after it, where it could have changed them.
    """

    version: int
    seconds: float
    counts: Counts | None


def migrate(
    path: Path,
    *,
    mounts: Path = file_system.MOUNTS,
    keep_copy: bool = True,
    to: int | None = None,
    on_applied: Callable[[Applied], None] = lambda _: None,
) -> int:
    """Apply the migrations that the database lacks. Several processes may call this at once.

    A new database has no agents yet: see :func:`shared.roster.new_database.prepare_database`.

    Args:
        mounts: the kernel's list of mounted file systems.
        keep_copy: of a database of an earlier release, before it is migrated.
        to: the version to stop at; None: the newest.
        on_applied: told of each migration of an earlier database.

    Returns:
        The schema's version afterwards.

    Raises:
        ConfigInvalid: the file system is no place for the database.
        DatabaseTooNew: a later release wrote the file; the file is unchanged.
        DatabaseRefused: the file is damaged, another program made or changed the schema, or rows would get lost.
        DatabaseUnavailable: no copy can be made; the file is unchanged.
    """
    file_system.check(path, mounts)
    owner_only.make_folder(path.parent)
    conn = open_connection(path)
    try:
        newest = max(schema.migrations()) if to is None else to
        found = schema.inspect(conn, path)
        if found > newest:
            raise DatabaseTooNew(
                f"{path} has schema {found}, this release knows up to {newest}: start it with the newer release again, "
                f"or go back to the schema of this one with the newer release's `emulator rollback`"
            )
        owner_only.narrow(path)
        if found == 0:
            _make(conn, path, newest)
        elif found < newest:
            with WorkerLock(path, "upgrade").waited():
                _upgrade(conn, path, newest, keep_copy, on_applied)
        with transaction(conn):
            meta.ensure_epoch(conn)
        return newest
    finally:
        conn.close()


def lost_rows(before: Counts, after: Counts) -> str:
    """The tables that have not as many rows as before, in words; '' if there is none. New tables lose nothing."""
    changed = {name: (was, after.get(name)) for name, was in before.items() if name != "meta"}
    return ", ".join(
        f"{name} ({was:,}, then {'no table' if now is None else f'{now:,}'})"
        for name, (was, now) in changed.items()
        if now != was and not (name == _BROKEN and now == 0)
    )


def _make(conn: apsw.Connection, path: Path, newest: int) -> None:
    """All of a new database in one transaction: no other process sees a part of it."""
    with transaction(conn):
        if schema.inspect(conn, path) == 0:  # else another process was quicker
            for version in range(1, newest + 1):
                rows(conn, schema.migrations()[version])
            meta.put(conn, "schema_version", str(newest))


def _upgrade(
    conn: apsw.Connection, path: Path, newest: int, keep_copy: bool, on_applied: Callable[[Applied], None]
) -> None:
    begun_with = schema.inspect(conn, path)
    if begun_with >= newest:  # another process was quicker
        return
    origin = meta.get(conn, _BEGAN_WITH)
    if keep_copy and (origin is None or not copies.place(path, origin).exists()):
        _keep_copy(conn, path, begun_with)
    for version in range(begun_with + 1, newest + 1):
        applied = _apply(conn, path, version, origin=str(begun_with) if origin is None else origin, newest=newest)
        if applied is not None:
            on_applied(applied)


def _keep_copy(conn: apsw.Connection, path: Path, version: int) -> None:
    copies.make(conn, path, copies.place(path, version))
    for older, copy in copies.find_all(path).items():
        if older < version:
            copy.unlink()


def _apply(conn: apsw.Connection, path: Path, version: int, *, origin: str, newest: int) -> Applied | None:
    """One migration, and the note of where the upgrade is; None: another process was quicker."""
    sql = schema.migrations()[version]
    begun_s = clock.monotonic_s()
    after: Counts | None = None
    with transaction(conn):
        if schema.inspect(conn, path) >= version:
            return None
        before = _facts(conn) if _MOVES_ROWS.search(sql) else None
        rows(conn, sql)
        if before is not None:
            after = _facts(conn)
            _check_counts(path, version, before, after)
        meta.put(conn, "schema_version", str(version))
        if version < newest:
            meta.put(conn, _BEGAN_WITH, origin)
        else:
            conn.execute("DELETE FROM meta WHERE key = :key", {"key": _BEGAN_WITH})
    return Applied(version, clock.monotonic_s() - begun_s, after)


def _facts(conn: apsw.Connection) -> Counts:
    return {**copies.counts(conn), _BROKEN: copies.broken_references(conn)}


def _check_counts(path: Path, version: int, before: Counts, after: Counts) -> None:
    """
    Raises:
        DatabaseRefused: a table lost or got rows.
    """
    if lost := lost_rows(before, after):
        raise DatabaseRefused(
            path,
            f"can't be migrated to schema {version}, because that would change how many rows there are: {lost}. It "
            f"was undone, and the database has schema {version - 1}",
            f"Go back with `emulator rollback`, start the earlier release, and report this. The copy from before is "
            f"beside it: {path.name}.schema-*",
        )
