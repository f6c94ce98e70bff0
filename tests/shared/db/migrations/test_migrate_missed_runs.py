"""Schedules of an earlier release keep their rule, and may take the new ones."""

import apsw
import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.engine.migrate import migrate

BEFORE = "0038"
INSERT = """
    INSERT INTO messages (message_id, id_prefix, channel, sender, message, agent, session_id, series_id, misfire,
                          recurrence, timezone, scheduled_at, process_after, created_at, updated_at)
    VALUES (:id, 'task', 'schedule', '', '', 'a', 1, :id, :misfire, '0 9 * * *', 'UTC', 30, 30, 20, 20)
"""


@pytest.fixture
def old(before):
    """A file of the release before, with a series of each kind."""
    path, conn = before
    with transaction(conn):
        rows(conn, "INSERT INTO agents (id, name, created_at, updated_at) VALUES ('a', 'A', 1, 1)")
        rows(conn, "INSERT INTO sessions (id, session_id, agent, created_at, last_active) VALUES (1, 's', 'a', 1, 1)")
        for misfire in ("coalesce", "catch_up"):
            rows(conn, INSERT, {"id": misfire, "misfire": misfire})
    return path, conn


def test_rules_of_an_earlier_release_stay_and_new_ones_are_known(old):
    path, conn = old
    migrate(path)
    assert rows(conn, "SELECT message_id, misfire, grace_ms FROM messages ORDER BY id") == [
        *(("coalesce", "coalesce", None), ("catch_up", "catch_up", None)),
    ]
    for table in ("messages", "responses"):
        rows(conn, f"UPDATE {table} SET misfire = 'skip', grace_ms = 5")
        with pytest.raises(apsw.ConstraintError):
            rows(
                conn,
                f"INSERT INTO {table} (misfire, channel, sender, message, created_at) VALUES ('both', '', '', '', 1)",
            )
    with pytest.raises(apsw.ConstraintError):
        rows(conn, "UPDATE messages SET grace_ms = -1")
    assert rows(conn, "PRAGMA integrity_check") == [("ok",)]
