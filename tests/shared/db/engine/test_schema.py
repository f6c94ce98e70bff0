"""A file that is damaged, or another program's, or was changed by one, is refused in one sentence and left as it is."""

import apsw
import pytest

from shared.core.errors import DatabaseRefused, DatabaseUnavailable
from shared.db.engine import meta, schema
from shared.db.engine.connection import open_connection, rows, transaction
from shared.roster.new_database import prepare_database
from tests.support import make_agent

DEEP = 50_000


def foreign(path, *statements):
    """The file after another program ran *statements*."""
    other = apsw.Connection(str(path))
    for statement in statements:
        other.execute(statement)
    other.close()
    return path


def refused(path):
    """The sentence; the file must be as it was."""
    before = path.read_bytes()
    with pytest.raises(DatabaseRefused) as error:
        prepare_database(path)
    assert path.read_bytes() == before
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(path))
    return str(error.value)


ANOTHER_PROGRAMS = {
    "no schema of ours": ["CREATE TABLE albums (id)"],
    "a view called meta": ["CREATE VIEW meta AS SELECT 'schema_version' AS key, '4' AS value"],
    "a meta of another form": ["CREATE TABLE meta (name, version)"],
    "a meta without a version": ["CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)"],
    "a version that is no number": [
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)",
        "INSERT INTO meta VALUES ('schema_version', 'four')",
    ],
    "a version that is no text": [
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value)",
        "INSERT INTO meta VALUES ('schema_version', x'04')",
    ],
    "a version of nothing": [
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)",
        "INSERT INTO meta VALUES ('schema_version', '0')",
    ],
}


@pytest.mark.parametrize("statements", ANOTHER_PROGRAMS.values(), ids=ANOTHER_PROGRAMS)
def test_the_database_of_another_program_gets_no_tables_of_ours(tmp_path, statements):
    sentence = refused(foreign(tmp_path / "p.db", "PRAGMA journal_mode = WAL", *statements))
    assert "is the database of another program" in sentence
    assert "POSTROOM_DB" in sentence


def test_a_version_without_its_tables_is_refused(tmp_path):
    made = ANOTHER_PROGRAMS["a version that is no number"]
    sentence = refused(foreign(tmp_path / "p.db", "PRAGMA journal_mode = WAL", made[0], made[1].replace("four", "4")))
    assert "lacks tables that its schema 4 has: agent_messages, agents, " in sentence


@pytest.mark.parametrize("size", [100, 4096, 20_000])
def test_a_file_that_was_cut_is_refused(db, size):
    whole = db.read_bytes()
    assert len(whole) > size
    db.write_bytes(whole[:size])
    assert "is not a database that SQLite can read" in refused(db)


@pytest.mark.parametrize(
    "expression", ["(" * DEEP + "1" + ")" * DEEP, "-" * DEEP + "1"], ids=["parentheses", "operators"]
)
def test_a_schema_that_is_nested_too_deep_is_refused(db, expression):
    other = apsw.Connection(str(db))
    other.execute("CREATE VIEW deep AS SELECT 1")
    other.execute("PRAGMA writable_schema = ON")
    other.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'deep'", (f"CREATE VIEW deep AS SELECT {expression}",))
    other.close()
    refused(db)


FOREIGN = {
    "a trigger": "CREATE TRIGGER spy AFTER INSERT ON messages BEGIN UPDATE messages SET message = 'x'; END",
    "a trigger under a name of ours": (
        "DROP TRIGGER agents_folder_new; CREATE TRIGGER agents_folder_new BEFORE INSERT ON agents BEGIN SELECT 1; END"
    ),
    "a view": "CREATE VIEW report AS SELECT 1",
}


@pytest.mark.parametrize("statement", FOREIGN.values(), ids=FOREIGN)
def test_triggers_and_views_of_others_are_refused(db, statement):
    sentence = refused(foreign(db, statement))
    assert "which Postroom did not make" in sentence
    assert "start again" in sentence


def test_tables_and_indexes_of_others_stay_and_so_do_litestreams(db, conn):
    added = (
        "CREATE TABLE notes (id)",
        "CREATE INDEX by_text ON messages (id)",
        "CREATE TABLE _litestream_seq (id)",
    )
    foreign(db, *added)
    assert prepare_database(db) == schema.inspect(conn, db)


def test_a_new_file_that_only_litestream_has_seen_is_new(tmp_path, db, conn):
    path = foreign(tmp_path / "new.db", "CREATE TABLE _litestream_seq (id)", "CREATE TABLE _litestream_lock (id)")
    assert prepare_database(path) == schema.inspect(conn, db)


def test_our_own_triggers_are_ours_after_every_migration(conn, db):
    assert rows(conn, "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'") != [(0,)]
    assert schema.inspect(conn, db) == max(schema.migrations())


def test_of_a_later_version_nothing_is_checked(conn, db):
    """Its own release knows its tables and triggers."""
    foreign(db, FOREIGN["a trigger"])
    with transaction(conn):
        meta.put(conn, "schema_version", "9999")
    assert schema.inspect(conn, db) == 9999


def test_a_place_where_no_file_can_be_is_told(tmp_path):
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(DatabaseRefused, match=r"folder\.db is a folder.* in POSTROOM_DB, such as \S+/postroom\.db$"):
        prepare_database(tmp_path / "folder.db")
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseUnavailable, match="can't be used at the moment"):
        prepare_database(tmp_path / "file" / "p.db")


def test_a_schema_may_call_no_function_that_has_an_effect(db):
    """SQLite trusts a schema by default: a CHECK or an index of a stranger could load a library."""
    conn = open_connection(db)
    assert conn.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, -1) == 0
    make_agent(conn, "still-works")
    conn.close()


def test_a_file_that_is_migrated_while_it_is_read_is_of_one_instant(tmp_path):
    path = tmp_path / "p.db"
    *earlier, (newest, _) = sorted(schema.migrations().items())
    conn, migrating = open_connection(path), open_connection(path)
    with transaction(migrating):
        for number, sql in earlier:
            rows(migrating, sql)
            meta.put(migrating, "schema_version", str(number))

    def migrate_in_between(_, sql, __):
        if "meta" in sql:
            conn.exec_trace = None
            prepare_database(path)
        return True

    conn.exec_trace = migrate_in_between
    assert schema.inspect(conn, path) == earlier[-1][0] < newest
    assert schema.inspect(conn, path) == newest
