"""From prose to codes: what last_error and an instant in the year 9999 said is said by checked columns."""

from importlib.resources import files

import apsw
import pytest

from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.migrate import migrate
from shared.db.queue import claims, dead_responses, ready_sessions, responses
from shared.db.views import responses as response_views
from shared.db.views.work import Filter
from shared.queue import series
from tests.support import NOW, column, dump

BEFORE = ("0001_first_light.sql", "0002_queue.sql", "0003_access.sql")
NEVER = 253_370_764_800_000  # the instant at which a paused response was due
DAY = 24 * 60 * 60 * 1000
GONE = "the process that ran the turn went away"

SEED = """
    INSERT INTO meta (key, value) VALUES ('schema_version', '3'), ('epoch', 'epoch_12345678') ON CONFLICT DO NOTHING;
    INSERT INTO agents (id, name, is_default, created_at, updated_at) VALUES ('assistant', 'Assistant', 1, 1, 1);
    INSERT INTO chats (channel, platform_id, created_at, updated_at) VALUES ('telegram', '100', 1, 1);
    INSERT INTO sessions (session_id, agent, chat_id, created_at, last_active)
    VALUES ('session_1', 'assistant', 1, 1, 1), ('session_2', 'assistant', NULL, 1, 1);
"""
MESSAGE = """
    INSERT INTO messages (id_prefix, channel, sender, message, agent, session_id, status, last_error, retry_count,
                          claimed_by, lease, process_after, series_id, created_at, updated_at)
    VALUES ('api', 'internal', 'Ana', 'text', 'assistant', :session, :status, :last_error, :retry_count, :claimed_by,
            :lease, :process_after, :series_id, :now, :now)
"""
RESPONSE = """
    INSERT INTO responses (message_id, channel, chat_id, platform_id, sender, message, status, last_error,
                           deliver_after, part_started, claimed_by, lease, recurrence, timezone, scheduled_at,
                           series_id, acked_at, created_at)
    VALUES ('m', :channel, :chat, '100', 'Ana', 'text', :status, :last_error, :deliver_after, :part_started,
            :claimed_by, :lease, :recurrence, :timezone, :scheduled_at, :series_id, :acked_at, :now)
"""


@pytest.fixture
def old(tmp_path):
    """A file of the release before, without a row."""
    path = tmp_path / "p.db"
    conn = open_connection(path)
    with transaction(conn):
        for name in BEFORE:
            rows(conn, (files("shared.db") / "migrations" / name).read_text("utf-8"))
        rows(conn, SEED)
    yield path, conn
    conn.close()


def message(conn, **fields):
    names = ("last_error", "claimed_by", "lease", "process_after", "series_id")
    values = {**dict.fromkeys(names), "session": 1, "status": "pending", "retry_count": 0, "now": NOW, **fields}
    rows(conn, MESSAGE, values)
    return conn.last_insert_rowid()


def response(conn, **fields):
    names = ("last_error", "deliver_after", "part_started", "claimed_by", "lease", "recurrence", "timezone")
    values = {
        **dict.fromkeys((*names, "scheduled_at", "series_id", "acked_at")),
        **{"channel": "telegram", "chat": 1, "status": "pending", "now": NOW},
        **fields,
    }
    rows(conn, RESPONSE, values)
    return conn.last_insert_rowid()


HELD = {"claimed_by": "x", "lease": NOW + 1}
SERIES = {"recurrence": "0 9 * * *", "timezone": "UTC", "scheduled_at": NOW + DAY, "series_id": "series_1"}

MESSAGES = {
    "never failed": ({}, None),
    "waits for another try": ({"last_error": "broken", "process_after": NOW + 5000}, "error"),
    "its process went away": ({"last_error": GONE}, "process_gone"),
    "runs again after it failed": ({"last_error": GONE, "status": "processing", **HELD}, "process_gone"),
    "dead": ({"last_error": "no use", "status": "dead"}, "error"),
    "cancelled with a reason": ({"last_error": "unwanted", "status": "cancelled"}, None),
}
RESPONSES = {
    "never failed": ({}, ("pending", None, None)),
    "waits for another try": ({"last_error": "429", "deliver_after": NOW + 5}, ("pending", "error", NOW + 5)),
    "its outcome is not known": (
        {"last_error": "no answer", "part_started": 0, "deliver_after": NOW + 5},
        ("pending", "outcome_unknown", NOW + 5),
    ),
    "is sent again": (
        {"last_error": "429", "part_started": 0, "status": "delivering", **HELD},
        ("delivering", "error", None),
    ),
    "dead": ({"last_error": "blocked", "status": "dead"}, ("dead", "error", None)),
    "nobody fetched it": (
        {"last_error": "nobody fetched it in time", "status": "dead"},
        ("dead", "not_fetched", None),
    ),
    "its series was cancelled": (
        {"last_error": "the series was cancelled", "status": "dead", "series_id": "series_1"},
        ("dead", "called_off", None),
    ),
    "deleted by hand": ({"last_error": "deleted by hand", "status": "dead"}, ("deleted", None, None)),
    "paused": ({"deliver_after": NEVER, **SERIES}, ("paused", None, NOW + DAY)),
    "planned for the year 9999, of no series": ({"deliver_after": NEVER}, ("pending", None, NEVER)),
    "sent": ({"status": "acked", "acked_at": NOW}, ("acked", None, None)),
}


def test_the_prose_of_a_message_becomes_a_code(old):
    path, conn = old
    ids = {what: message(conn, **fields) for what, (fields, _) in MESSAGES.items()}
    migrate(path)
    found = {id_: tuple(more) for id_, *more in rows(conn, "SELECT id, failure, last_error FROM messages")}
    told = {what: found[id_] for what, id_ in ids.items()}
    assert told == {what: (failure, fields.get("last_error")) for what, (fields, failure) in MESSAGES.items()}


def test_the_prose_of_a_response_becomes_a_state_or_a_code(old):
    path, conn = old
    ids = {what: response(conn, **fields) for what, (fields, _) in RESPONSES.items()}
    migrate(path)
    found = {
        id_: tuple(state) for id_, *state in rows(conn, "SELECT id, status, failure, deliver_after FROM responses")
    }
    assert {what: found[id_] for what, id_ in ids.items()} == {what: state for what, (_, state) in RESPONSES.items()}


def test_other_rows_keep_their_state(old):
    """A suspect stays one, a retry keeps its place, a paused series stays paused, a deleted response stays hidden."""
    path, conn = old
    message(conn, last_error=GONE, retry_count=2)
    message(conn, session=2, last_error="broken", process_after=NOW + 5000, retry_count=1)
    response(conn, deliver_after=NEVER, **SERIES)
    response(conn, status="dead", last_error="nobody fetched it in time", channel="api", chat=None)
    response(conn, status="dead", last_error="deleted by hand")
    migrate(path)
    assert [(each.session_id, each.is_suspect) for each in ready_sessions.find(conn, now_ms=NOW)] == [(1, True)]
    assert [each.status for each in series.every(conn)] == ["paused"]
    assert responses.heads(conn, "telegram", now_ms=NEVER) == []
    assert [each["id"] for each in response_views.dead_responses(conn, Filter(), limit=9, now_ms=1)] == [2]
    with transaction(conn):
        series.resume(conn, "series_1", now_ms=NOW)
        dead_responses.retry(conn, 2, now_ms=NOW)
        assert claims.claim(conn, "assistant", 2, token="t", now_ms=NOW, lease_ms=1000, limit=9) is None
    assert column(conn, "SELECT status FROM responses ORDER BY id") == ["pending", "pending", "deleted"]
    assert column(conn, "PRAGMA integrity_check") == ["ok"]


def test_another_connection_sees_the_new_states_at_once(old):
    path, conn = old
    response(conn)
    other = open_connection(path)
    assert column(other, "SELECT count(*) FROM responses") == [1]
    migrate(path)
    with transaction(other):
        rows(other, "UPDATE responses SET status = 'paused'")
    assert column(conn, "SELECT status FROM responses") == ["paused"]
    other.close()


def test_no_row_is_copied(old):
    """Ten million rows stay where they are: the migration writes the schema's pages, and the rows that failed."""
    path, conn = old
    with transaction(conn):
        for _ in range(2000):
            response(conn)
            message(conn)
    conn.set_wal_hook(None)
    rows(conn, "PRAGMA wal_checkpoint(TRUNCATE)")
    keeps_the_wal = open_connection(path)
    with transaction(conn):
        rows(conn, (files("shared.db") / "migrations" / "0004_failure_codes.sql").read_text("utf-8"))
    assert path.with_name("p.db-wal").stat().st_size < 50 * 4096
    keeps_the_wal.close()


ILLEGAL = {
    "an unknown failure of a message": "UPDATE messages SET failure = 'not_fetched'",
    "an unknown failure of a response": "UPDATE responses SET failure = 'process_gone'",
    "an unknown state of a response": "UPDATE responses SET status = 'cancelled'",
    "a second live one of a series": "UPDATE responses SET series_id = 'series_1', recurrence = '* * * * *'",
}


@pytest.mark.parametrize("statement", ILLEGAL.values(), ids=ILLEGAL)
def test_the_schema_refuses(old, statement):
    path, conn = old
    message(conn)
    response(conn, deliver_after=NEVER, **SERIES)
    response(conn, **{**SERIES, "recurrence": None})
    migrate(path)
    before = dump(conn)
    with pytest.raises(apsw.ConstraintError), transaction(conn):
        rows(conn, statement)
    assert dump(conn) == before


EDITED = {
    "messages": "CHECK ((status = 'processing') = (claimed_by",
    "responses": "OR status = 'dead')",
    "responses_one_live": "OR status = 'delivering')",
    "responses_planned": "OR status = 'delivering')",
    "responses_dead": "WHERE status = 'dead'",
}


@pytest.mark.parametrize(("name", "text"), EDITED.items(), ids=EDITED)
def test_a_schema_in_other_words_is_refused_and_not_half_edited(old, name, text):
    path, conn = old
    with transaction(conn):
        rows(conn, "PRAGMA writable_schema = ON")
        other = {"name": name, "text": text, "other": text.replace(" = ", "  =  ")}
        rows(conn, "UPDATE sqlite_schema SET sql = replace(sql, :text, :other) WHERE name = :name", other)
        rows(conn, "PRAGMA writable_schema = RESET")
    before = rows(conn, "SELECT name, sql FROM sqlite_schema")
    with pytest.raises(apsw.Error):
        migrate(path)
    assert rows(conn, "SELECT name, sql FROM sqlite_schema") == before
    assert column(conn, "SELECT value FROM meta WHERE key = 'schema_version'") == ["3"]
