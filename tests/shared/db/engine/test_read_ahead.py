import apsw
import pytest

from shared.core import ids
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.read_ahead import ReadAhead
from shared.db.queue import messages
from shared.db.queue.messages import NewMessage
from tests.support import NOW, column, make_session, plan

OF_MESSAGES = ReadAhead(
    "messages", ("message", "content", "files"), (("message_id",), ("channel", "event_key", "agent"))
)


def store(conn, count):
    """Messages with long texts and random ids."""
    session = make_session(conn)[1]
    with transaction(conn):
        for _ in range(count):
            new = NewMessage(
                "telegram",
                "telegram",
                event_key=ids.new("key"),
                message="x" * 9000,
                agent="assistant",
                session_id=session,
            )
            messages.enqueue(conn, new, now_ms=NOW)


@pytest.fixture
def reader(db, conn):
    store(conn, 600)
    reader = open_connection(db, readonly=True)
    rows(reader, "PRAGMA cache_size = -64000")
    yield reader
    reader.close()


def missed(conn, work):
    """How many pages *work* had to fetch from the file."""
    before = conn.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
    work()
    return conn.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0] - before


def look(conn, where):
    """Look up these rows by each unique index, and read the whole of them."""
    for message_id, channel, key, agent in rows(
        conn, f"SELECT message_id, channel, event_key, agent FROM messages WHERE {where}"
    ):
        rows(conn, "SELECT length(message) FROM messages WHERE message_id = ?", (message_id,))
        sql = "SELECT id FROM messages WHERE channel = ? AND event_key = ? AND agent = ?"
        rows(conn, sql, (channel, key, agent))


def test_what_was_read_ahead_is_in_memory_and_the_rows_behind_are_not(reader):
    first, last = min(column(reader, "SELECT id FROM messages")), max(column(reader, "SELECT id FROM messages"))
    look(reader, f"id = {first}")
    OF_MESSAGES(reader, after_id=first, limit=100)
    assert missed(reader, lambda: look(reader, f"id > {first} AND id <= {first + 100}")) == 0
    assert missed(reader, lambda: look(reader, f"id > {last - 100}")) > 100


def test_each_index_is_looked_up_and_no_table_is_walked(conn):
    sql = OF_MESSAGES.sql.replace("id > ?", "id > :after").replace("LIMIT ?", "LIMIT :limit")
    lines = plan(conn, sql, after=0, limit=250)
    assert any("messages_message_id (message_id=?)" in line for line in lines), lines
    assert any("messages_event (channel=? AND event_key=? AND agent=?)" in line for line in lines), lines
    assert [line for line in lines if line.startswith("SCAN")] == ["SCAN next"]
