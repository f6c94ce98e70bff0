"""The way back from an upgrade: the earlier schema with all that came in since, whatever dies on the way."""

import os
import resource
import shutil
import signal

import apsw
import pytest

from emulator.base.errors import DoesNotExist, NotReady
from emulator.upgrades.rollback import roll_back
from infra.litestream import local_state
from shared.core.errors import DatabaseUnavailable
from shared.db.engine import copies, schema
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.migrate import migrate
from tests.forks import FORKS, run_crew
from tests.shared.db.engine.earlier_databases import die_before, fill_tables, make_first
from tests.support import column, dump, make_session, put

NEWEST = max(schema.migrations())
RELEASED = 28  # the schema of 0.1.0
SINCE = """
    UPDATE messages SET status = 'completed' WHERE message = 'answered since';
    INSERT INTO responses (message_id, in_reply_to, channel, sender, message, status, created_at, acked_at)
    SELECT message_id, id, channel, sender, 'the answer', 'acked', 1, 2 FROM messages WHERE message = 'answered since';
    UPDATE responses SET status = 'acked', acked_at = 5 WHERE id = 2;          -- it was pending before
    UPDATE messages SET status = 'dead', failure = 'chain_cost' WHERE id = 1;  -- words that 0.1.0 does not know
    UPDATE messages SET misfire = 'skip' WHERE id = 2;
    UPDATE responses SET status = 'paused' WHERE id = 1000002;
    DELETE FROM messages WHERE id = 6;
    UPDATE agents SET instructions = 'new ones', progress = 1 WHERE id = 'assistant';
    INSERT INTO sessions (session_id, agent, chat_id, series_id, created_at, last_active)
    SELECT 'session_own', agent, chat_id, 'series_9', 1, 1 FROM sessions WHERE id = 1;
    UPDATE meta SET value = '77' WHERE key = 'announced';
"""


def at_schema(path, version):
    """A database of an earlier schema with a row in each table, and what this release did to it in an hour."""
    make_first(path).close()
    migrate(path, to=version, keep_copy=False)
    conn = open_connection(path)
    fill_tables(conn)
    conn.close()
    migrate(path)
    conn = open_connection(path)
    make_session(conn, chat="200")
    put(conn, "answered since", chat="200", event_key="new-1")
    put(conn, "waits since", chat="200", event_key="new-2")
    with transaction(conn):
        rows(conn, SINCE)
    fill_tables(conn)
    conn.close()
    return path


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A database of 0.1.0 that was upgraded an hour ago."""
    return at_schema(tmp_path_factory.mktemp("released") / "p.db", RELEASED)


@pytest.fixture
def db(released, tmp_path):
    for path in released.parent.glob("p.db*"):
        shutil.copy(path, tmp_path / path.name)
    return tmp_path / "p.db"


def read(path, query=None):
    conn = open_connection(path)
    try:
        return dump(conn) if query is None else rows(conn, query)
    finally:
        conn.close()


def columns_of(path, table):
    return [name for _, name, *_ in read(path, f"PRAGMA table_info({table})")]


def common(path, other, table):
    """The rows of the table in both files, in the columns that both have."""
    known = columns_of(other, table)
    names = ", ".join(name for name in columns_of(path, table) if name in known)
    return [read(each, f"SELECT {names} FROM {table} ORDER BY {names}") for each in (path, other)]


@pytest.mark.parametrize("version", [1, 3, RELEASED, NEWEST - 1])
def test_each_message_and_answer_is_there_in_the_state_of_now(tmp_path, version):
    db = at_schema(tmp_path / "p.db", version)
    now = tmp_path / "now.db"
    shutil.copy(db, now)
    done = roll_back(db, None)
    conn = open_connection(db)
    assert schema.inspect(conn, db) == done.version == version  # its tables, triggers and views are those of then
    assert copies.broken_references(conn) == 0
    assert column(conn, "PRAGMA integrity_check") == ["ok"]
    conn.close()
    states = "SELECT id, message, status, event_key, session_id FROM messages ORDER BY id"
    assert read(db, states) == read(now, states)
    assert {row[1] for row in read(db, states)} >= {"answered since", "waits since"}
    answers = "SELECT id, message, acked_at, platform_message_id FROM responses ORDER BY id"
    assert read(db, answers) == read(now, answers)
    before = copies.counts(apsw.Connection(str(copies.place(db, version))))
    assert set(before) == set(copies.counts(apsw.Connection(str(db))))


def test_what_the_earlier_release_can_t_say_it_says_in_its_own_words(db):
    """A row with words of a later release would be refused by the constraints of the schema."""
    roll_back(db, None)
    assert read(db, "SELECT status, failure FROM messages WHERE id = 1") == [("dead", "error")]
    assert read(db, "SELECT misfire FROM messages WHERE id = 2") == [("coalesce",)]
    assert read(db, "SELECT status FROM sessions WHERE session_id = 'session_own'") == [("closed",)]
    assert read(db, "SELECT value FROM meta WHERE key = 'announced'") == [("77",)]


def test_what_nobody_touched_is_as_it_was_before_the_upgrade(db):
    copy = copies.place(db, RELEASED)
    changed = {"messages", "responses", "agents", "sessions", "chats", "meta", "events"}
    before = read(copy)
    roll_back(db, None)
    after = read(db)
    assert {name: found for name, found in after.items() if name not in changed} == {
        name: found for name, found in before.items() if name not in changed
    }
    for table in changed:
        kept = set(before[table]) & set(after[table])
        assert len(kept) >= len(before[table]) - 5, table


def test_after_another_upgrade_it_is_the_database_of_before_the_rollback(db, tmp_path):
    now = tmp_path / "now.db"
    shutil.copy(db, now)
    roll_back(db, None)
    migrate(db)
    for table in read(copies.place(db, RELEASED)):
        if table not in ("messages", "sessions", "agents", "responses"):  # they have words of the later release
            ours, theirs = common(db, now, table)
            assert ours == theirs, table


@pytest.mark.parametrize("is_there", [False, True])
def test_what_a_migration_notes_is_noted_again_by_another_upgrade(db, is_there):
    """Migration 52 notes up to which event sweep has counted. A rollback once left the number in the earlier schema."""
    note = "SELECT value FROM meta WHERE key = 'events_counted'"
    conn = open_connection(db)
    with transaction(conn):
        rows(conn, "UPDATE meta SET value = '1' WHERE key = 'events_counted'")  # as sweep does
    conn.close()
    roll_back(db, None)
    assert read(db, note) == []
    if is_there:
        conn = open_connection(db)
        with transaction(conn):
            rows(conn, "INSERT INTO meta VALUES ('events_counted', '1')")
        conn.close()
    migrate(db)
    assert read(db, note) == read(db, "SELECT CAST(max(id) AS TEXT) FROM events")


def test_what_it_has_no_table_for_is_told_and_kept(db):
    before = read(db)
    done = roll_back(db, None)
    assert done.left_out["permissions"] == 1
    assert set(done.left_out) == set(before) - set(read(db))
    assert done.kept == copies.place(db, NEWEST)
    assert read(done.kept) == before


def test_a_row_that_can_t_be_said_stops_it_and_nothing_is_changed(db):
    conn = open_connection(db)
    with transaction(conn):
        rows(conn, "CREATE TABLE notes (id INTEGER PRIMARY KEY, text)")
    conn.close()
    copy = apsw.Connection(str(copies.place(db, RELEASED)))
    copy.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text CHECK (text = 'old'))")
    copy.close()
    conn = open_connection(db)
    with transaction(conn):
        rows(conn, "INSERT INTO notes VALUES (7, 'new')")
    conn.close()
    before = read(db)
    with pytest.raises(NotReady, match=r"the row id 7 of notes can't be stored .*CHECK.*Nothing was changed"):
        roll_back(db, None)
    assert read(db) == before
    assert not list(db.parent.glob(".p.db-*"))


def test_the_copy_of_another_database_is_refused(db):
    copy = apsw.Connection(str(copies.place(db, RELEASED)))
    copy.execute("UPDATE meta SET value = '99' WHERE key = 'began_at'")
    copy.close()
    with pytest.raises(NotReady, match=r"schema-28 is no copy of this database"):
        roll_back(db, None)


def test_it_goes_back_to_the_copy_of_the_last_upgrade(db):
    """And not to that of a rollback before it, whose schema is later."""
    of_a_rollback = copies.place(db, NEWEST - 1)
    shutil.copy(copies.place(db, RELEASED), of_a_rollback)
    migrate(of_a_rollback, to=NEWEST - 1, keep_copy=False)
    os.utime(of_a_rollback, (1, 1))
    assert roll_back(db, None).version == RELEASED


def test_without_a_copy_it_says_so(db):
    with pytest.raises(DoesNotExist, match=rf"no copy of schema 27 beside \S+p\.db; there is one of schema {RELEASED}"):
        roll_back(db, 27)
    copies.place(db, RELEASED).unlink()
    with pytest.raises(DoesNotExist, match=rf"no copy of an earlier schema than {NEWEST}"):
        roll_back(db, None)


def test_an_upgrade_that_did_not_end_can_be_taken_back(tmp_path):
    db = tmp_path / "p.db"
    make_first(db).close()
    before = read(db)
    left = 20

    def look(_, sql, __):
        nonlocal left
        left -= sql.startswith("CREATE TABLE")
        if not left:
            raise KeyboardInterrupt
        return True

    hook = lambda conn: setattr(conn, "exec_trace", look)  # noqa: E731
    apsw.connection_hooks.append(hook)
    with pytest.raises(KeyboardInterrupt):
        migrate(db)
    apsw.connection_hooks.remove(hook)
    assert 1 < int(read(db, "SELECT value FROM meta WHERE key = 'schema_version'")[0][0]) < NEWEST
    roll_back(db, None)
    assert read(db) == before


def roll_back_and_die(path, words, number):
    """As a rollback that is killed before it runs the *number*th statement that begins with the *words*."""
    die_before(words, number)
    roll_back(path, None)


@pytest.mark.parametrize(
    "words",
    [
        "PRAGMA journal_mode = OFF",
        "ALTER TABLE",
        "ATTACH",
        "DELETE FROM main",
        "PRAGMA quick_check",
        "SELECT count(*) FROM messages",
    ],
)
def test_killed_on_the_way_it_left_the_database_as_it_was(db, words):
    before = read(db)
    assert run_crew([FORKS.Process(target=roll_back_and_die, args=(db, words, 1))]) == [-signal.SIGKILL]
    assert read(db) == before
    assert roll_back(db, None).version == RELEASED
    assert not list(db.parent.glob(".p.db-*"))


def roll_back_on_a_full_disk(path, room, action):
    """The rollback can write files of that size at most; in the last step, if *room* is None."""

    def limit(size):
        signal.signal(signal.SIGXFSZ, action)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    def look(_, sql, __):
        if sql.startswith("SELECT count(*) FROM messages"):
            limit(path.stat().st_size // 2)
        return True

    if room is None:
        apsw.connection_hooks.append(lambda conn: setattr(conn, "exec_trace", look))
    else:
        limit(room)
    with pytest.raises((NotReady, DatabaseUnavailable), match="is unchanged"):
        roll_back(path, None)


@pytest.mark.parametrize("room", [100_000, None])
def test_a_disk_that_is_full_leaves_the_database_as_it_was(db, room):
    before = read(db)
    assert run_crew([FORKS.Process(target=roll_back_on_a_full_disk, args=(db, room, signal.SIG_IGN))]) == [0]
    assert read(db) == before
    assert not list(db.parent.glob(".p.db-*"))


def test_killed_in_the_midst_of_the_last_step_it_left_the_database_as_it_was(db):
    """The kernel kills a process that writes beyond the limit: half of the pages are in the log then."""
    before = read(db)
    process = FORKS.Process(target=roll_back_on_a_full_disk, args=(db, None, signal.SIG_DFL))
    assert run_crew([process]) == [-signal.SIGXFSZ]
    assert db.with_name("p.db-wal").stat().st_size > 100_000
    assert read(db) == before
    assert roll_back(db, None).version == RELEASED


def test_the_next_litestream_begins_with_a_full_copy(db):
    """It would not know of pages that were written while it did not run."""
    roll = local_state.folder(db)
    roll.mkdir()
    local_state.mark_good_end(db)
    assert local_state.is_trusted(db)
    roll_back(db, None)
    assert not local_state.is_trusted(db)


def test_the_history_goes_on(db):
    """No event and no epoch is lost, so the replica takes the file as the newest state."""
    before = read(db, "SELECT max(id) FROM events"), read(db, "SELECT value FROM meta WHERE key = 'epoch'")
    roll_back(db, None)
    assert (read(db, "SELECT max(id) FROM events"), read(db, "SELECT value FROM meta WHERE key = 'epoch'")) == before
