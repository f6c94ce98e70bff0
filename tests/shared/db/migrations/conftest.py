"""A database of an earlier release."""

import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import apsw
import pytest

from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, transaction

_MIGRATIONS = files("shared.db") / "migrations"


@pytest.fixture(scope="module")
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the release before the migration ``BEFORE`` of the module, made once; tests work on copies."""
    path: Path = tmp_path_factory.mktemp("release") / "p.db"
    conn = open_connection(path)
    names = sorted(item.name for item in _MIGRATIONS.iterdir() if item.name < request.module.BEFORE)
    with transaction(conn):
        for name in names:
            rows(conn, (_MIGRATIONS / name).read_text("utf-8"))
        meta.put(conn, "schema_version", str(int(names[-1][:4])))
    conn.close()
    return path


@pytest.fixture
def before(release: Path, tmp_path: Path) -> Iterator[tuple[Path, apsw.Connection]]:
    """The path of such a file for one test, and a connection to it."""
    path = tmp_path / "p.db"
    shutil.copy(release, path)
    conn = open_connection(path)
    yield path, conn
    conn.close()
