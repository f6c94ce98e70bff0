"""Before a database is migrated a checked copy of it is kept, and no death on the way loses anything of it."""

import resource
import shutil
import signal
from pathlib import Path

import apsw
import pytest

from shared.core.errors import DatabaseRefused, DatabaseUnavailable
from shared.db.engine import copies, meta, schema
from shared.db.engine.connection import open_connection, rows, scalar, transaction
from shared.db.engine.migrate import lost_rows, migrate
from shared.roster.new_database import prepare_database
from tests.forks import FORKS, outcomes, run_crew
from tests.shared.db.engine.earlier_databases import die_before, make_first, read
from tests.support import dump

NEWEST = max(schema.migrations())
PER_DEATH = 8  # migrations between two deaths


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    path = tmp_path_factory.mktemp("first") / "p.db"
    make_first(path).close()
    return path


@pytest.fixture
def db(first, tmp_path):
    path = tmp_path / "p.db"
    shutil.copy(first, path)
    return path


def version_of(path):
    conn = open_connection(path)
    try:
        return int(meta.get(conn, "schema_version"))
    finally:
        conn.close()


def migrate_and_die(path, words, number):
    """As a start that is killed before it runs the *number*th statement that begins so."""
    die_before(words, number)
    migrate(path)


def die(path, words, number=1):
    """Whether the start was killed."""
    (code,) = run_crew([FORKS.Process(target=migrate_and_die, args=(path, words, number))])
    return code == -signal.SIGKILL


def test_the_first_schema_has_rows_in_each_table(db):
    assert [table for table, found in read(db).items() if not found] == []


def test_a_copy_of_before_is_kept_and_only_its_owner_may_read_it(db):
    before = read(db)
    migrate(db)
    copy = copies.place(db, 1)
    assert read(copy) == before
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not list(db.parent.glob("*.copying*"))


def test_a_new_database_and_one_of_this_release_get_no_copy(tmp_path):
    for _ in range(2):
        prepare_database(tmp_path / "new.db")
    assert copies.find_all(tmp_path / "new.db") == {}


def test_the_next_upgrade_replaces_the_copy_and_leaves_one_of_a_later_schema(db):
    migrate(db, to=10)
    assert list(copies.find_all(db)) == [1]
    later = copies.place(db, NEWEST + 1)
    later.touch()
    migrate(db)
    assert list(copies.find_all(db)) == [10, NEWEST + 1]


@pytest.mark.parametrize(
    "words", ["PRAGMA journal_mode = OFF", "PRAGMA journal_mode = DELETE", "PRAGMA quick_check", "BEGIN IMMEDIATE"]
)
def test_killed_before_the_first_migration_the_database_is_as_it_was(db, words):
    before = read(db)
    assert die(db, words)
    assert read(db) == before
    prepare_database(db)
    assert version_of(db) == NEWEST
    assert read(copies.place(db, 1)) == before
    assert not list(db.parent.glob("*.copying*"))


def test_killed_again_and_again_it_comes_to_the_end_with_every_row(db, first, tmp_path):
    """Each start goes on where the last one was killed, and the copy stays that of the beginning."""
    before, deaths = read(db), 0
    while die(db, "INSERT INTO meta (key, value) VALUES (:key", 2 * PER_DEATH + 1):  # each migration notes two facts
        deaths += 1
        assert version_of(db) == 1 + deaths * PER_DEATH
        assert read(copies.place(db, 1)) == before
    assert deaths == (NEWEST - 2) // PER_DEATH  # none after the last migration
    assert list(copies.find_all(db)) == [1]
    undisturbed = tmp_path / "undisturbed.db"
    shutil.copy(first, undisturbed)
    migrate(undisturbed)
    instants = {"accounts": None}  # migration 23 writes when it ran
    assert read(db) | instants == read(undisturbed) | instants
    assert scalar(open_connection(db), "PRAGMA integrity_check") == "ok"


def upgraded(conn):
    return prepare_database(Path(conn.filename))


def test_two_upgrades_at_once_make_one_copy_and_one_database(db):
    before = read(db)
    assert outcomes(db, upgraded, [()] * 2) == [NEWEST] * 2
    assert read(copies.place(db, 1)) == before


def test_without_room_for_a_copy_nothing_is_changed(db):
    """A limit on the size of files is the full disk of this test."""
    before = db.read_bytes()
    process = FORKS.Process(target=prepare_with_files_of, args=(db, 64 * 1024))
    assert run_crew([process]) == [0]
    assert db.read_bytes() == before
    assert sorted(each.name for each in db.parent.iterdir() if "schema" in each.name) == []


def prepare_with_files_of(path, limit):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    with pytest.raises(DatabaseUnavailable, match=r"could not be copied to .*p\.db\.schema-1 .*p\.db is unchanged"):
        prepare_database(path)


def test_where_the_disk_has_too_little_room_it_says_how_much_is_needed(db):
    with pytest.raises(DatabaseUnavailable, match=r"it needs [\d,]+ MiB, and the disk of \S+ has [\d,]+ MiB free"):
        copies.check_room(db, 1 << 60, "a copy")


def test_a_damaged_database_is_not_migrated(db):
    content = bytearray(db.read_bytes())
    conn = apsw.Connection(str(db))
    page = scalar(conn, "SELECT rootpage FROM sqlite_schema WHERE name = 'dropped_recent'")
    conn.close()
    content[(page - 1) * 4096 : (page - 1) * 4096 + 64] = b"\xff" * 64
    db.write_bytes(content)
    with pytest.raises(DatabaseRefused, match=r"p\.db is (damaged|not a database)"):
        prepare_database(db)
    assert version_of(db) == 1
    assert copies.find_all(db) == {}


def test_a_table_with_another_number_of_rows_is_noticed():
    before = {"messages": 100, "events": 7, "meta": 3, "gone": 1, "rows whose reference is broken": 2}
    after = {"messages": 99, "events": 7, "meta": 4, "new": 5, "rows whose reference is broken": 0}
    assert lost_rows(before, after) == "messages (100, then 99), gone (1, then no table)"
    assert lost_rows({"rows whose reference is broken": 0}, {"rows whose reference is broken": 1}) != ""


def test_a_migration_that_loses_rows_is_undone(db):
    """A trigger, which a database must not have, deletes a row while migration 2 builds the table anew."""
    conn = open_connection(db)
    with transaction(conn):
        rows(conn, "CREATE TABLE witness (message_id INTEGER REFERENCES messages (id) ON DELETE CASCADE)")
        rows(conn, "INSERT INTO witness SELECT min(id) FROM messages")
    before = dump(conn)
    with pytest.raises(DatabaseRefused, match=r"schema 2, because .*witness \(1, then 0\).*has schema 1\. Go"):
        prepare_database(db)
    assert dump(conn) == before
    conn.close()


def test_each_migration_says_in_a_sentence_what_it_is_for():
    for number, sql in schema.migrations().items():
        sentence = schema.sentence(number)
        assert 15 < len(sentence) < 190, (number, sentence)
        assert sql.startswith("-- ")
