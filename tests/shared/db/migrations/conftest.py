"""A database of an earlier release."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import apsw
import pytest

from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, transaction

_MIGRATIONS = files("shared.db") / "migrations"


@pytest.fixture
def before(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, apsw.Connection]]:
    """A file of the release before the migration ``BEFORE`` of the module."""
    path = tmp_path / "p.db"
    conn = open_connection(path)
    names = sorted(item.name for item in _MIGRATIONS.iterdir() if item.name < request.module.BEFORE)
    with transaction(conn):
        for name in names:
            rows(conn, (_MIGRATIONS / name).read_text("utf-8"))
        meta.put(conn, "schema_version", str(int(names[-1][:4])))
    yield path, conn
    conn.close()
