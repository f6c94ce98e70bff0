"""An upgrade step by step: of the database, or of a copy that is removed again."""

import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.core.errors import DatabaseTooNew
from shared.db.engine import copies, schema
from shared.db.engine.connection import open_connection
from shared.db.engine.copies import Counts
from shared.db.engine.migrate import Applied, migrate
from shared.db.engine.owner_only import make_folder


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an upgrade did.

    Args:
        before, after: the rows of each table.
        copy_s: how long it took to copy the database, and to check the copy.
    """

    found: int
    newest: int
    bytes: int
    before: Counts
    after: Counts
    copy_s: float
    applied: list[Applied]

    @property
    def migrations_s(self) -> float:
        return sum(each.seconds for each in self.applied)


def version_of(database: Path) -> int:
    """The version of the database's schema.

    Raises:
        DatabaseTooNew: a later release wrote the file.
        DatabaseRefused, DatabaseUnavailable: it can't be used.
    """
    with schema.explained(database), closing(open_connection(database, readonly=True)) as conn:
        found, newest = schema.inspect(conn, database), max(schema.migrations())
    if found > newest:
        raise DatabaseTooNew(f"{database} has schema {found}, this release knows up to {newest}: use the newer release")
    return found


def rehearse(database: Path) -> Upgrade:
    """Migrate a copy beside the database, and remove it. Writers may go on.

    Raises:
        DatabaseTooNew, DatabaseRefused, DatabaseUnavailable: as the upgrade itself.
    """
    with working_folder(database, "rehearsal") as folder, schema.explained(database):
        copy = folder / database.name
        with closing(open_connection(database, readonly=True)) as conn:
            copies.check_room(database, 2 * copies.size(conn), "a copy and its migration")
            begun_s = time.monotonic()
            before, size = copies.make(conn, database, copy), copies.size(conn)
        return _migrate(copy, before, size, copy_s=time.monotonic() - begun_s, keep_copy=False)


def upgrade(database: Path) -> Upgrade:
    """Migrate the database, as the start of a function does.

    Raises:
        DatabaseTooNew, DatabaseRefused, DatabaseUnavailable
    """
    with schema.explained(database), closing(open_connection(database, readonly=True)) as conn:
        before, size = copies.counts(conn), copies.size(conn)
    return _migrate(database, before, size, copy_s=None, keep_copy=True)


def _migrate(database: Path, before: Counts, size: int, *, copy_s: float | None, keep_copy: bool) -> Upgrade:
    applied: list[Applied] = []
    found = version_of(database)
    begun_s = time.monotonic()
    with schema.explained(database):
        newest = migrate(database, keep_copy=keep_copy, on_applied=applied.append)
        whole_s = time.monotonic() - begun_s
        with closing(open_connection(database, readonly=True)) as conn:
            after = copies.counts(conn)
    copied_s = whole_s - sum(each.seconds for each in applied) if copy_s is None else copy_s
    return Upgrade(found, newest, size, before, after, copied_s, applied)


@contextmanager
def working_folder(database: Path, name: str) -> Iterator[Path]:
    """A folder beside the database, on its disk; one that a killed process left is removed first."""
    folder = database.with_name(f".{database.name}-{name}")
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
