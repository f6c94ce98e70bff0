"""What a mart tells of rows and days that are gone."""

import json

import pytest
from pyarrow import parquet as pq

from spark_jobs.__main__ import main
from spark_jobs.mart.places import present

NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC


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
