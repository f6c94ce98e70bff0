import apsw
import pytest

from shared.core.errors import DatabaseTooNew
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.migrate import migrate
from shared.db.roster import agents
from shared.roster.new_database import prepare_database
from tests.forks import race
from tests.support import NOW, column, dump, make_agent, make_session, put


def test_a_fresh_file_gets_the_schema_an_epoch_and_the_echo_agent(tmp_path):
    path = tmp_path / "deep" / "p.db"
    version = prepare_database(path)
    conn = open_connection(path)
    assert meta.get(conn, "schema_version") == str(version)
    assert meta.get(conn, "epoch").startswith("epoch_")
    assert [(agent.id, agent.provider, agent.is_default) for agent in agents.every(conn)] == [
        ("assistant", "echo", True)
    ]


def test_a_second_time_changes_nothing(db, conn):
    before = dump(conn)
    migrate(db)
    assert dump(conn) == before


def test_eight_processes_at_once_agree(tmp_path):
    path = tmp_path / "p.db"
    open_connection(path).close()  # or they would stand at the gate before they read the file
    script = (
        "from shared.roster.new_database import prepare_database; print(prepare_database(pathlib.Path(sys.argv[1])))"
    )
    assert len(set(race(path, script, [()] * 8))) == 1
    conn = open_connection(path)
    assert column(conn, "SELECT count(*) FROM agents") == [1]
    assert column(conn, "SELECT count(*) FROM meta WHERE key = 'epoch'") == [1]


def test_a_newer_file_is_refused_and_left_as_it_is(db, conn):
    with transaction(conn):
        meta.put(conn, "schema_version", "9999")
    before = dump(conn)
    with pytest.raises(DatabaseTooNew, match=r"has schema 9999, this release knows up to \d+"):
        migrate(db)
    assert dump(conn) == before


def test_the_first_agent_is_not_made_again_where_agents_are(db, conn):
    make_agent(conn, "other")
    with transaction(conn):
        rows(conn, "DELETE FROM agents WHERE id = 'assistant'")
    prepare_database(db)
    assert [agent.id for agent in agents.every(conn)] == ["other"]


def test_saving_an_agent_keeps_the_default_agent(conn):
    with transaction(conn):
        agents.save(conn, agents.Agent("assistant", "A", concurrency=2), now_ms=NOW)
    assert agents.default(conn).concurrency == 2


RESPONSE = "INSERT INTO responses (message_id, channel, sender, message, created_at{}) VALUES ('m', 'c', 's', 't', 1{})"
ILLEGAL = {
    "processing without a claim": "UPDATE messages SET status = 'processing'",
    "processing without a lease": "UPDATE messages SET status = 'processing', claimed_by = 'x'",
    "a claim without processing": "UPDATE messages SET claimed_by = 'x', lease = 1",
    "recurrence without a series": "UPDATE messages SET recurrence = '* * * * *', timezone = 'UTC', scheduled_at = 1",
    "recurrence without a zone": "UPDATE messages SET recurrence = '* * * * *', series_id = 's', scheduled_at = 1",
    "recurrence without an instant": "UPDATE messages SET recurrence = '* * * * *', series_id = 's', timezone = 'UTC'",
    "an unknown status": "UPDATE messages SET status = 'lost'",
    "content that is no JSON": "UPDATE messages SET content = '{'",
    "content that is a list": "UPDATE messages SET content = '[]'",
    "files that are no list": "UPDATE messages SET files = '{}'",
    "content of a response that is a number": RESPONSE.format(", content", ", '5'"),
    "files of a response that are null": RESPONSE.format(", files", ", 'null'"),
    "metadata that is a text": RESPONSE.format(", metadata", ", '\"a\"'"),
    "parts that are an object": RESPONSE.format(", parts", ", '{}'"),
    "an agent's config that is a list": "UPDATE agents SET config = '[]'",
    "a question's options that are an object": (
        "INSERT INTO questions (question_id, session_id, question, options, expires_at, created_at, updated_at)"
        " VALUES ('q', 1, 'q', '{}', 1, 1, 1)"
    ),
    "an approval's payload that is a list": (
        "INSERT INTO approvals (approval_id, kind, payload, expires_at, created_at, updated_at)"
        " VALUES ('a', 'tool', '[]', 1, 1, 1)"
    ),
    "an approval's options that are an object": (
        "INSERT INTO approvals (approval_id, kind, options, expires_at, created_at, updated_at)"
        " VALUES ('a', 'tool', '{}', 1, 1, 1)"
    ),
    "text for an instant": "UPDATE messages SET process_after = 'tomorrow'",
    "a trigger of two": "UPDATE messages SET trigger = 2",
    "an unknown misfire": "UPDATE messages SET misfire = 'both'",
    "a session that does not exist": "UPDATE messages SET session_id = 999",
    "a chat that does not exist": "UPDATE messages SET chat_id = 999",
    "delivering without a claim": RESPONSE.format(", status", ", 'delivering'"),
    "acked without an instant": RESPONSE.format(", status", ", 'acked'"),
    "an instant without acked": RESPONSE.format(", acked_at", ", 1"),
    "a recurring response without a series": RESPONSE.format(", recurrence", ", '* * * * *'"),
    "a second default agent": (
        "INSERT INTO agents (id, name, is_default, created_at, updated_at) VALUES ('b', 'B', 1, 1, 1)"
    ),
    "an agent's id with a slash": "INSERT INTO agents (id, name, created_at, updated_at) VALUES ('../b', 'B', 1, 1)",
    "an agent's id in capitals": "INSERT INTO agents (id, name, created_at, updated_at) VALUES ('Bob', 'B', 1, 1)",
    "an agent's id of 65": f"INSERT INTO agents (id, name, created_at, updated_at) VALUES ('{'b' * 65}', 'B', 1, 1)",
    "a pattern wiring without a pattern": (
        "INSERT INTO wirings (chat_id, agent, engage_mode, created_at) VALUES (1, 'assistant', 'pattern', 1)"
    ),
    "a second active session": (
        "INSERT INTO sessions (session_id, agent, chat_id, created_at, last_active) VALUES ('z', 'assistant', 1, 1, 1)"
    ),
    "an unknown role": (
        "INSERT INTO agent_messages (agent_id, role, channel, sender, message_id, content, created_at)"
        " VALUES ('a', 'system', 'c', 's', 'm', 't', 1)"
    ),
    "data that is no JSON": "INSERT INTO events (type, data, created_at) VALUES ('x', 'y', 1)",
}


@pytest.mark.parametrize("statement", ILLEGAL.values(), ids=ILLEGAL)
def test_the_schema_refuses(conn, statement):
    assert make_session(conn)[0] == 1
    put(conn)
    with pytest.raises(apsw.ConstraintError), transaction(conn):
        rows(conn, statement)


def test_two_live_occurrences_of_a_series_are_refused(conn):
    series = {"recurrence": "* * * * *", "timezone": "UTC", "series_id": "s", "scheduled_at": NOW}
    put(conn, **series)
    with pytest.raises(apsw.ConstraintError):
        put(conn, **series)
