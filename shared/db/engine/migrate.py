"""Brings a database of any earlier release up to this one: numbered files, applied once, each in a transaction."""

from pathlib import Path

from shared.core.errors import DatabaseTooNew
from shared.db.engine import file_system, meta, owner_only, schema
from shared.db.engine.connection import open_connection, rows, transaction


def migrate(path: Path, *, mounts: Path = file_system.MOUNTS) -> int:
    """Apply the migrations that the database lacks. Several processes may call this at once.

    A new database has no agents yet: see :func:`shared.roster.new_database.prepare_database`.

    Args:
        mounts: the kernel's list of mounted file systems.

    Returns:
        The schema's version afterwards.

    Raises:
        ConfigInvalid: the file system is no place for the database.
        DatabaseTooNew: a later release wrote the file; the file is unchanged.
        DatabaseRefused: another program made or changed the schema; the file is unchanged.
    """
    file_system.check(path, mounts)
    owner_only.make_folder(path.parent)
    conn = open_connection(path)
    try:
        pending = schema.migrations()
        newest = max(pending)
        found = schema.inspect(conn, path)
        if found > newest:
            raise DatabaseTooNew(
                f"{path} has schema {found}, this release knows up to {newest}: start it with the newer release again"
            )
        owner_only.narrow(path)
        for version in sorted(each for each in pending if each > found):
            with transaction(conn):
                if schema.inspect(conn, path) < version:  # another process may have been quicker
                    rows(conn, pending[version])
                    meta.put(conn, "schema_version", str(version))
        with transaction(conn):
            meta.ensure_epoch(conn)
        return newest
    finally:
        conn.close()
