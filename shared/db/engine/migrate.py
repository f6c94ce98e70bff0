"""Brings a database of any earlier release up to this one: numbered files, applied once, each in a transaction."""

import re
from importlib.resources import files
from pathlib import Path

import apsw

from shared.core.errors import DatabaseTooNew
from shared.db.engine import meta, owner_only
from shared.db.engine.connection import open_connection, rows, transaction


def migrate(path: Path) -> int:
    """Apply the migrations that the database lacks. Several processes may call this at once.

    A new database has no agents yet: see :func:`shared.roster.new_database.prepare_database`.

    Returns:
        The schema's version afterwards.

    Raises:
        DatabaseTooNew: a later release wrote the file; the file is unchanged.
    """
    owner_only.make_folder(path.parent)
    owner_only.narrow(path)
    conn = open_connection(path)
    try:
        pending = _migrations()
        newest = max(pending)
        found = _version(conn)
        if found > newest:
            raise DatabaseTooNew(
                f"{path} has schema {found}, this release knows up to {newest}: start it with the newer release again"
            )
        for version in sorted(pending):
            with transaction(conn):
                if _version(conn) < version:  # another process may have been quicker
                    rows(conn, pending[version])
                    meta.put(conn, "schema_version", str(version))
        with transaction(conn):
            meta.ensure_epoch(conn)
        return newest
    finally:
        conn.close()


def _migrations() -> dict[int, str]:
    """Version to SQL."""
    folder = files("shared.db") / "migrations"
    found = {item.name: item.read_text("utf-8") for item in folder.iterdir() if item.name.endswith(".sql")}
    return {int(re.match(r"(\d{4})_", name)[1]): sql for name, sql in found.items()}  # type: ignore[index]


def _version(conn: apsw.Connection) -> int:
    # Not conn.table_exists: that asks the cached schema, which another process may have changed since.
    if not rows(conn, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'meta'"):
        return 0
    return int(meta.get(conn, "schema_version") or 0)
