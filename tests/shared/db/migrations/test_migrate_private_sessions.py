"""Sessions of one person: what exists stays, and an index holds one active session for each person too."""

from importlib.resources import files

import apsw
import pytest

from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.migrate import migrate
from shared.db.queue import sessions
from tests.support import NOW, column

BEFORE = ("0001_first_light.sql", "0002_queue.sql", "0003_access.sql", "0004_failure_codes.sql")
SEED = """
    INSERT INTO meta (key, value) VALUES ('schema_version', '4'), ('epoch', 'epoch_12345678') ON CONFLICT DO NOTHING;
    INSERT INTO agents (id, name, is_default, created_at, updated_at) VALUES ('assistant', 'Assistant', 1, 1, 1);
    INSERT INTO chats (channel, platform_id, created_at, updated_at) VALUES ('telegram', '100', 1, 1);
    INSERT INTO sessions (session_id, agent, chat_id, thread_id, continuation, created_at, last_active)
    VALUES ('session_1', 'assistant', 1, NULL, 'go on', 1, 1), ('session_2', 'assistant', NULL, NULL, NULL, 1, 1);
"""


@pytest.fixture
def conn(tmp_path):
    """A file of an earlier release, brought up to this one."""
    path = tmp_path / "p.db"
    before = open_connection(path)
    with transaction(before):
        for name in BEFORE:
            rows(before, (files("shared.db") / "migrations" / name).read_text("utf-8"))
        rows(before, SEED)
    before.close()
    migrate(path)
    after = open_connection(path)
    yield after
    after.close()


def test_existing_sessions_are_not_private_and_go_on(conn):
    assert column(conn, "SELECT private_to FROM sessions") == [None, None]
    with transaction(conn):
        assert sessions.ensure(conn, "assistant", 1, None, now_ms=NOW) == 1
        assert sessions.ensure(conn, "assistant", 1, None, private_to="5", now_ms=NOW) == 3
    assert sessions.known(conn, 1).continuation == "go on"
    assert sessions.known(conn, 3).private_to == "5"


@pytest.mark.parametrize("private_to", ["'5'", "NULL"])
def test_a_second_active_session_of_a_person_or_of_all_is_refused(conn, private_to):
    with transaction(conn):
        sessions.ensure(conn, "assistant", 1, None, private_to="5", now_ms=NOW)
    with pytest.raises(apsw.ConstraintError), transaction(conn):
        rows(
            conn,
            "INSERT INTO sessions (session_id, agent, chat_id, private_to, created_at, last_active)"
            f" VALUES ('session_9', 'assistant', 1, {private_to}, 1, 1)",
        )


def test_a_person_without_a_chat_is_refused(conn):
    """The id of a person means one person only on the channel of a chat."""
    with pytest.raises(apsw.ConstraintError), transaction(conn):
        rows(conn, "UPDATE sessions SET private_to = '5' WHERE id = 2")
