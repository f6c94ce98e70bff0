"""The words for the ends of programs, added to a file of an earlier release."""

from importlib.resources import files
from typing import get_args

import apsw
import pytest

from shared.core.failures import ENDED_BY, FailureCode
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.migrate import migrate
from tests.support import column, make_agent, put

BEFORE = "0014"
MIGRATIONS = files("shared.db") / "migrations"


@pytest.fixture
def old(tmp_path):
    """A file of the release before."""
    path = tmp_path / "p.db"
    conn = open_connection(path)
    names = sorted(item.name for item in MIGRATIONS.iterdir() if item.name < BEFORE)
    with transaction(conn):
        for name in names:
            rows(conn, (MIGRATIONS / name).read_text("utf-8"))
        meta.put(conn, "schema_version", str(int(names[-1][:4])))
    yield path, conn
    conn.close()


def test_each_word_and_no_other_is_accepted_after_the_migration(old):
    path, conn = old
    migrate(path)
    make_agent(conn, "assistant")
    put(conn)
    for word in get_args(FailureCode):
        rows(conn, "UPDATE messages SET failure = :word", {"word": word})
    with pytest.raises(apsw.ConstraintError):
        rows(conn, "UPDATE messages SET failure = 'bored'")
    assert column(conn, "PRAGMA integrity_check") == ["ok"]


def test_every_word_says_who_ended_the_attempt():
    assert ENDED_BY.keys() == set(get_args(FailureCode))
