"""Migration 19: questions of an earlier release stay as they were."""

import apsw

from shared.db.access import questions
from shared.db.engine import schema
from shared.db.engine.connection import open_connection, rows
from shared.db.engine.migrate import migrate
from tests.support import column


def test_an_open_question_of_an_earlier_release_stays_open_and_is_nobodys_button(tmp_path):
    path = tmp_path / "old.db"
    old = apsw.Connection(str(path))
    for version in sorted(each for each in schema.migrations() if each < 19):
        rows(old, schema.migrations()[version])
    rows(old, "INSERT INTO meta (key, value) VALUES ('schema_version', '18')")
    rows(old, "INSERT INTO agents (id, name, created_at, updated_at) VALUES ('a', 'A', 1, 1)")
    rows(
        old, "INSERT INTO sessions (id, session_id, agent, created_at, last_active) VALUES (1, 'session_1', 'a', 1, 1)"
    )
    rows(
        old,
        "INSERT INTO questions (question_id, session_id, question, expires_at, created_at, updated_at)"
        " VALUES ('question_00000001', 1, 'sure?', 99, 1, 1)",
    )
    old.close()
    assert migrate(path) >= 19
    conn = open_connection(path)
    found = questions.get(conn, "question_00000001")
    assert (found.status, found.chat_id, found.card, found.click) == ("open", None, None, None)
    assert column(conn, "SELECT count(*) FROM tool_calls") == [0]
    conn.close()
