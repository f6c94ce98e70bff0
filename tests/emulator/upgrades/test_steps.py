"""An upgrade is tried on a copy: what it says is what the upgrade does."""

import pytest

from emulator.upgrades.steps import rehearse, upgrade, version_of, working_folder
from shared.core.errors import DatabaseTooNew
from shared.db.engine import copies, meta, schema
from shared.db.engine.connection import open_connection, transaction
from tests.shared.db.engine.earlier_databases import make_first, read

NEWEST = max(schema.migrations())


@pytest.fixture
def db(tmp_path):
    make_first(tmp_path / "p.db").close()
    return tmp_path / "p.db"


def test_a_rehearsal_changes_nothing_and_leaves_nothing(db):
    before, files = read(db), {each.name for each in db.parent.iterdir()}
    tried = rehearse(db)
    assert read(db) == before
    assert {each.name for each in db.parent.iterdir()} == files
    assert (tried.found, tried.newest) == (1, NEWEST)
    assert [each.version for each in tried.applied] == list(range(2, NEWEST + 1))


def test_it_says_what_the_upgrade_then_does(db):
    tried, done = rehearse(db), upgrade(db)
    assert (tried.before, tried.after) == (done.before, done.after)
    assert [each.version for each in tried.applied] == [each.version for each in done.applied]
    assert {name: done.after[name] for name in done.before if name != "meta"} == {
        name: count for name, count in done.before.items() if name != "meta"
    }
    assert list(copies.find_all(db)) == [1]


def test_a_rehearsal_that_was_killed_leaves_no_folder_for_good(db):
    with working_folder(db, "rehearsal") as folder:
        (folder / "left").touch()
        rehearse(db)
        assert not folder.exists()


def test_a_database_of_a_later_release_is_refused(db):
    conn = open_connection(db)
    with transaction(conn):
        meta.put(conn, "schema_version", str(NEWEST + 1))
    conn.close()
    with pytest.raises(DatabaseTooNew, match=rf"has schema {NEWEST + 1}, this release knows up to {NEWEST}: use"):
        version_of(db)
