"""What a mart tells of rows and days that are gone."""

import json
from contextlib import closing

import pytest
from pyarrow import parquet as pq

from shared.db.engine import meta
from shared.db.engine.connection import open_connection, transaction
from shared.db.queue import epochs
from spark_jobs.__main__ import main
from spark_jobs.daily import Done, days_to_compute
from spark_jobs.jobs import failures
from spark_jobs.mart.places import present

NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
DAY_MS = 86_400_000


@pytest.fixture
def mart(tmp_path):
    return str(tmp_path / "mart")


@pytest.fixture
def run(primary, cache, mart):
    """Replicate and publish; return the exit code."""

    def run():
        primary.replicate()
        return main(["publish", "--replica", primary.url, "--mart", mart, "--cache-dir", str(cache)])

    return run


def rows_of(place, table):
    manifest, files, base = present(place)
    names = [name for each in manifest.tables[table].days.values() for name in each.files]
    found = [row for name in names for row in pq.read_table(files.open_input_file(f"{base}/{name}")).to_pylist()]
    return sorted(found, key=lambda row: row["id"])


def happen(primary, kind, message_id, at=NOON, response_id=None, **data):
    primary.execute(
        "INSERT INTO events (type, message_id, response_id, agent, data, created_at) VALUES (?, ?, ?, 'a', ?, ?)",
        [(kind, message_id, response_id, json.dumps(data), at)],
    )


def forget(mart):
    return main(["forget", "--mart", mart, "--channel", "telegram", "--sender-id", "42"])


def test_a_day_that_a_person_leaves_empty_is_computed_again_although_other_tables_have_it(primary, run, mart):
    primary.receive(2)
    primary.receive(1, at=NOON + DAY_MS)
    primary.execute("UPDATE messages SET sender_id = CASE WHEN id < 3 THEN '42' ELSE '7' END")
    happen(primary, "message_received", "m_0")
    assert run() == 0
    days = ["2025-10-09", "2025-10-10"]
    done = Done(1, present(mart)[0].timestamp)
    assert days_to_compute(failures.JOB, present(mart)[0], done, days) == []
    assert forget(mart) == 0
    manifest = present(mart)[0]
    assert days_to_compute(failures.JOB, manifest, done, days) == ["2025-10-09"]
    assert days_to_compute(failures.JOB, manifest, done, days[1:]) == ["2025-10-09"], "a run that was killed removed it"
    assert days_to_compute(failures.JOB, manifest, Done(2, manifest.timestamp), days[1:]) == []


def test_a_day_that_a_new_history_leaves_empty_is_computed_again(primary, run, mart):
    primary.execute("INSERT INTO meta (key, value) VALUES ('epoch', 'one') ON CONFLICT DO UPDATE SET value = 'one'")
    primary.receive(1, status="completed")
    happen(primary, "message_received", "m_0")
    primary.receive(1, status="completed", at=NOON + DAY_MS)
    happen(primary, "message_received", "m_1", NOON + DAY_MS)
    assert run() == 0
    done = Done(1, present(mart)[0].timestamp)
    for table in ("messages", "events"):
        primary.execute(f"DELETE FROM {table} WHERE id = 2")
    primary.execute("UPDATE meta SET value = 'two' WHERE key = 'epoch'")
    happen(primary, "agent_paused", None, NOON + DAY_MS)
    assert run() == 0
    assert len(rows_of(mart, "messages")) == 1
    assert "2025-10-10" in days_to_compute(failures.JOB, present(mart)[0], done, ["2025-10-09"])
    primary.execute("DELETE FROM events WHERE id = 2")
    happen(primary, "agent_resumed", None, NOON + 1)
    primary.execute("UPDATE meta SET value = 'three' WHERE key = 'epoch'")
    assert run() == 0, "the newest day of the events is empty"
    happen(primary, "agent_resumed", None, NOON + 2)
    assert run() == 0
    assert [row["type"] for row in rows_of(mart, "events")] == ["message_received", "agent_resumed", "agent_resumed"]
    assert len(present(mart)[0].new_histories) == 2


def test_ids_that_a_restore_left_out_are_no_lost_rows(primary, run, mart):
    """Also where a run has seen what was restored before the first start begins the ids."""
    with closing(open_connection(primary.path)) as conn, transaction(conn):
        meta.put(conn, "epoch", "one")
        epochs.begin(conn, now_ms=NOON)
    happen(primary, "processor_start", None)
    assert run() == 0
    with closing(open_connection(primary.path)) as conn, transaction(conn):
        epochs.name(conn, "two")
    assert run() == 0
    with closing(open_connection(primary.path)) as conn, transaction(conn):
        epochs.begin(conn, now_ms=NOON)
    assert run() == 0
    happen(primary, "processor_start", None)
    assert run() == 0
    assert [row["id"] for row in rows_of(mart, "events")] == [1, 1 + epochs.STEP, 2 + epochs.STEP]
    assert {table: files.holes for table, files in present(mart)[0].tables.items() if files.holes} == {}


def test_a_row_that_ended_unseen_has_the_failure_of_its_end(primary, run, mart):
    primary.receive(4)
    primary.execute("UPDATE messages SET failure = 'network', last_error = 'away', retry_count = 1 WHERE id < 4")
    primary.execute(
        "INSERT INTO responses (message_id, channel, sender, message, original_message, status, created_at)"
        " VALUES ('m', 'discord', 'a', 'hello', 'h', 'pending', ?)",
        [(NOON,)],
    )
    happen(primary, "message_received", "m_0")
    assert run() == 0
    happen(primary, "chain_step_done", "m_0", batch=["m_0"])
    happen(primary, "message_dead", "m_1", reason="no use", failure="killed", retry_count=5)
    happen(primary, "message_dead", "m_2", reason="an older release")
    happen(primary, "response_dead", None, response_id=1, reason="nobody fetched it", failure="not_fetched")
    primary.execute("DELETE FROM messages WHERE id < 4")
    primary.execute("DELETE FROM responses")
    assert run() == 0
    columns = ("status", "failure", "retry_count", "last_error")
    assert [tuple(row[name] for name in columns) for row in rows_of(mart, "messages")[:3]] == [
        ("completed", None, 1, None),
        ("dead", "killed", 5, "no use"),
        ("dead", "network", 1, "an older release"),
    ]
    assert [tuple(row[name] for name in columns) for row in rows_of(mart, "responses")] == [
        ("dead", "not_fetched", 0, "nobody fetched it")
    ]


def test_no_event_quotes_a_person_who_was_taken_out(primary, run, mart):
    primary.receive(2)
    primary.execute("UPDATE messages SET sender_id = CASE WHEN id = 1 THEN '42' ELSE '7' END")
    for number in range(2):
        happen(primary, "message_retry", f"m_{number}", reason=f"refused: text {number}", failure="error")
    assert run() == 0
    assert forget(mart) == 0
    told = [{"failure": "error"}, {"reason": "refused: text 1", "failure": "error"}]
    assert [json.loads(row["data"]) for row in rows_of(mart, "events")] == told
    happen(primary, "message_retry", "m_0", reason="refused: text 0", failure="error")
    assert run() == 0
    assert [json.loads(row["data"]) for row in rows_of(mart, "events")] == [*told, told[0]]
