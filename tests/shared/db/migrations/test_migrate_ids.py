"""From computed ids to random ones: every handle that was given out still names its message."""

from importlib.resources import files

import apsw
import pytest

from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.migrate import migrate
from shared.db.queue import messages
from shared.db.queue.messages import NewMessage
from shared.db.views import stream
from tests.support import NOW, column, dump

BEFORE = ("0001_first_light.sql", "0002_queue.sql", "0003_access.sql", "0004_failure_codes.sql")
SEED = """
    INSERT INTO meta (key, value) VALUES ('schema_version', '4'), ('epoch', 'epoch_12345678') ON CONFLICT DO NOTHING;
    INSERT INTO agents (id, name, is_default, created_at, updated_at) VALUES ('assistant', 'Assistant', 1, 1, 1);
    INSERT INTO sessions (session_id, agent, created_at, last_active) VALUES ('session_1', 'assistant', 1, 1);
"""
MESSAGE = """
    INSERT INTO messages (given_id, id_prefix, channel, sender, message, content, files, agent, session_id, status,
                          failure, created_at, updated_at)
    VALUES (?, ?, 'api', 'Ana', 'text', ?, ?, 'assistant', 1, 'completed', 'error', ?, ?)
"""
FIRST = "api_9e3779a6"  # the first id over the API, in every database of that release


@pytest.fixture
def old(tmp_path):
    """A file of the release before."""
    path = tmp_path / "p.db"
    conn = open_connection(path)
    with transaction(conn):
        for name in BEFORE:
            rows(conn, (files("shared.db") / "migrations" / name).read_text("utf-8"))
        rows(conn, SEED)
        for given, prefix in ((None, "api"), (None, "telegram"), ("order-7", "api"), (None, "task")):
            rows(conn, MESSAGE, (given, prefix, '{"hops": 2}', '["f"]', NOW, NOW + 1))
    yield path, conn
    conn.close()


def test_every_message_keeps_the_id_that_was_given_out(old):
    path, conn = old
    before = dict(rows(conn, "SELECT id, message_id FROM messages"))
    migrate(path)
    assert dict(rows(conn, "SELECT id, message_id FROM messages")) == before
    assert before[1] == FIRST
    assert {row_id: messages.find(conn, message_id) for row_id, message_id in before.items()} == {
        row_id: row_id for row_id in before
    }
    shown = stream.messages(conn, list(before.values()), characters=10)
    assert {message_id: each["row"] for message_id, each in shown.items()} == {
        message_id: row_id for row_id, message_id in before.items()
    }


def test_the_other_columns_are_what_they_were(old):
    path, conn = old
    names = "id, content, files, status, failure, created_at, updated_at"
    before = rows(conn, f"SELECT {names} FROM messages")
    migrate(path)
    assert rows(conn, f"SELECT {names} FROM messages") == before
    assert column(conn, "SELECT id_prefix FROM messages") == ["api", "telegram", "", "task"]  # '': the caller's own id
    assert column(conn, "PRAGMA integrity_check") == ["ok"]


def test_a_new_message_gets_a_random_id_and_no_old_one(old):
    path, _ = old
    migrate(path)
    conn = open_connection(path)
    new = NewMessage(sender="Ana", agent="assistant", session_id=1)
    with transaction(conn):
        made = messages.id_of(conn, messages.enqueue(conn, new, now_ms=NOW))
    assert made.startswith("api_")
    for taken in column(conn, "SELECT message_id FROM messages"):
        with pytest.raises(apsw.ConstraintError), transaction(conn):
            messages.enqueue(conn, new._replace(given_id=taken), now_ms=NOW)
    conn.close()


WRONG = {
    "messages": ("content", "'[]'", '{"unreadable":"[]"}'),
    "files of messages": ("files", "'5'", "[]"),
    "responses": ("content", "'5'", '{"unreadable":"5"}'),
    "metadata of responses": ("metadata", "'null'", '{"unreadable":"null"}'),
    "parts of responses": ("parts", "'{}'", "[]"),
    "options of approvals": ("options", "'{}'", "[]"),
    "config of agents": ("config", "'[1]'", "{}"),
}
ROWS = """
    INSERT INTO responses (message_id, channel, sender, message, created_at) VALUES ('m', 'c', 's', 't', 1);
    INSERT INTO approvals (approval_id, kind, expires_at, created_at, updated_at) VALUES ('a', 'tool', 1, 1, 1);
"""


@pytest.mark.parametrize(("table", "change"), WRONG.items(), ids=WRONG)
def test_other_json_than_the_column_holds_is_made_readable(old, table, change):
    path, conn = old
    name, wrong, right = change
    table = table.rpartition(" ")[2]
    with transaction(conn):
        rows(conn, ROWS)
        rows(conn, f"UPDATE {table} SET {name} = {wrong}")
    migrate(path)
    assert set(column(conn, f"SELECT {name} FROM {table}")) == {right}
    assert column(conn, "PRAGMA integrity_check") == ["ok"]


EDITED = {
    "messages": "ifnull(given_id, format(",
    "responses": "json_valid(parts)",
    "agents": "json_valid(config)",
    "questions": "json_valid(options)",
    "approvals": "json_valid(payload)",
}


@pytest.mark.parametrize(("name", "text"), EDITED.items(), ids=EDITED)
def test_a_schema_in_other_words_is_refused_and_not_half_edited(old, name, text):
    path, conn = old
    with transaction(conn):
        rows(conn, "PRAGMA writable_schema = ON")
        other = {"name": name, "text": text, "other": text.replace("(", "( ", 1)}
        rows(conn, "UPDATE sqlite_schema SET sql = replace(sql, :text, :other) WHERE name = :name", other)
        rows(conn, "PRAGMA writable_schema = RESET")
    before = rows(conn, "SELECT name, sql FROM sqlite_schema"), dump(conn)
    with pytest.raises(apsw.Error):
        migrate(path)
    assert (rows(conn, "SELECT name, sql FROM sqlite_schema"), dump(conn)) == before
