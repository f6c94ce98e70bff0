"""The way back to an earlier release: the copy from before the upgrade, with all that happened since.

The database gets the content of the result in one commit. So a process that is killed, and a disk that is full, leave
it as it was.
"""

import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw

from emulator.base.errors import DoesNotExist, NotReady
from emulator.upgrades import carrying
from emulator.upgrades.carrying import Carried
from emulator.upgrades.steps import version_of, working_folder
from infra.litestream import distrust_local_state
from shared.core.errors import WrongState
from shared.db.engine import copies, meta
from shared.db.engine.connection import open_connection, replacing, scalar
from shared.db.engine.lock import WorkerLock
from shared.db.engine.migrate import lost_rows, migrate

_FILES = 5  # of the size of the database, while it works: the copy that it keeps, three to work with, and the log


@dataclass(frozen=True, slots=True)
class Rollback:
    """What a rollback did.

    Args:
        kept: the copy of the database from before the rollback.
        carried: what happened since the upgrade, by table.
        left_out: the rows of tables that the earlier schema has not; *kept* has them.
    """

    found: int
    version: int
    kept: Path
    carried: list[Carried]
    left_out: Mapping[str, int]
    messages: int


def choose(database: Path, found: int, to: int | None) -> tuple[int, Path]:
    """The copy to go back to: that of schema *to*, or the one of an earlier schema than *found* that was made last.

    A rollback keeps a copy too, of a later schema than that of the next upgrade.

    Raises:
        DoesNotExist: there is none.
    """
    earlier = {version: path for version, path in copies.find_all(database).items() if version < found}
    if to is not None and to in earlier:
        return to, earlier[to]
    if to is None and earlier:
        return max(earlier.items(), key=lambda each: each[1].stat().st_mtime_ns)
    there = f"; there is one of schema {', '.join(map(str, earlier))}" if earlier else ""
    wanted = f"schema {to}" if to is not None else f"an earlier schema than {found}"
    raise DoesNotExist(
        f"there is no copy of {wanted} beside {database}{there}. An upgrade keeps one; without it the way back is a "
        f"restore of an instant before the upgrade (docs/past.md). Nothing was changed"
    )


def roll_back(database: Path, to: int | None) -> Rollback:
    """Give the database an earlier schema, with all that it holds now. No function may run.

    Raises:
        DoesNotExist: there is no copy of that schema.
        EmulatorError, DatabaseTooNew, DatabaseRefused, DatabaseUnavailable: the database is as it was.
    """
    found = version_of(database)
    with WorkerLock(database, "upgrade").waited():
        conn = open_connection(database)
        try:
            version, source = choose(database, found, to)
            copies.check_room(database, _FILES * copies.size(conn), "a rollback")
            with working_folder(database, "rollback") as folder, replacing(conn) as replace:
                kept = copies.place(database, found)
                copies.make(conn, database, kept)
                try:
                    fresh, carried = _prepare(folder, source, kept, found)
                except WrongState as error:
                    raise NotReady(f"{error}. Nothing was changed") from None
                distrust_local_state(database)
                with closing(apsw.Connection(str(fresh), flags=apsw.SQLITE_OPEN_READONLY)) as content:
                    messages = int(scalar(content, "SELECT count(*) FROM messages"))
                    left = carrying.left_out(fresh, kept)
                    replace(content)
        except (OSError, apsw.Error) as error:  # a full disk, above all
            raise NotReady(f"the rollback did not come to its end ({error}); {database} is unchanged") from None
        finally:
            conn.close()
    return Rollback(found, version, kept, carried, left, messages)


def _prepare(folder: Path, source: Path, now: Path, found: int) -> tuple[Path, list[Carried]]:
    """The file of the earlier schema with all that happened since, checked."""
    fresh, migrated = folder / "fresh.db", folder / "migrated.db"
    for each in (fresh, migrated):
        shutil.copyfile(source, each)
        each.chmod(0o600)
    migrate(migrated, keep_copy=False, to=found)
    _check_history(source, migrated, now)
    carried = carrying.carry(fresh, migrated, now)
    _check(fresh, source, now)
    return fresh, carried


def _check_history(source: Path, migrated: Path, now: Path) -> None:
    with (
        closing(open_connection(migrated, readonly=True)) as one,
        closing(open_connection(now, readonly=True)) as other,
    ):
        if meta.began_at(one) != meta.began_at(other):
            raise WrongState(f"{source} is no copy of this database: they were not made at the same instant")


def _check(fresh: Path, source: Path, now: Path) -> None:
    """
    Raises:
        WrongState: the result is damaged, or lacks rows.
    """
    with (
        closing(open_connection(fresh, readonly=True)) as result,
        closing(open_connection(source, readonly=True)) as before,
        closing(open_connection(now, readonly=True)) as present,
    ):
        tables = copies.counts(result)
        wanted = {name: count for name, count in copies.counts(present).items() if name in tables}
        problem = scalar(result, "PRAGMA quick_check")
        if problem == "ok":
            problem = lost_rows(wanted, tables)
        allowed = max(copies.broken_references(before), copies.broken_references(present))
        if not problem and copies.broken_references(result) > allowed:
            problem = "a row refers to another one that does not exist"
    if problem:
        raise WrongState(f"the rollback does not hold all that the database holds: {problem}")
