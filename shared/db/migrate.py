"""Brings a database of any earlier release up to this one: numbered files, applied once, each in a transaction."""

import re
from importlib.resources import files
from pathlib import Path

import apsw

from shared import clock
from shared.db import meta
from shared.db.connection import open_connection, rows, scalar, transaction
from shared.errors import DatabaseTooNew


def migrate(path: Path, *, timezone: str = "UTC", agents_file: Path | None = None) -> int:
    """Apply what is missing, and give a new database its first agents, who live in *timezone* if they name no other.

    Safe to run from several processes at once.

    Args:
        agents_file: what names them; None: there is one, who needs no account.

    Returns:
        The schema's version afterwards.

    Raises:
        DatabaseTooNew: the file was written by a later release; it is left as it is.
        ConfigInvalid: the file that names the agents is wrong; the database has none yet.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
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
            if not scalar(conn, "SELECT EXISTS (SELECT 1 FROM agents)"):
                _begin(conn, timezone=timezone, agents_file=agents_file)
        return newest
    finally:
        conn.close()


def _begin(conn: apsw.Connection, *, timezone: str, agents_file: Path | None) -> None:
    from shared import seeding  # once in a database's life; the functions' starts go without it

    seeding.begin(conn, agents_file, timezone=timezone, now_ms=clock.now_ms())


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
