"""A run of a schedule gets the grid of its series, and the run before it, as far as an earlier release kept them."""

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.engine.migrate import migrate

BEFORE = "0036"


@pytest.fixture
def old(before):
    """A file of the release before, with a series of messages and one that has ended."""
    path, conn = before
    with transaction(conn):
        rows(conn, "INSERT INTO agents (id, name, created_at, updated_at) VALUES ('a', 'A', 1, 1)")
        rows(conn, "INSERT INTO sessions (id, session_id, agent, created_at, last_active) VALUES (1, 's', 'a', 1, 1)")
        rows(
            conn,
            """
            INSERT INTO messages (message_id, id_prefix, channel, sender, message, agent, session_id, series_id,
                                  recurrence, timezone, scheduled_at, process_after, created_at, updated_at)
            VALUES ('task_3', 'task', 'schedule', '', '', 'a', 1, 'daily', '0 9 * * *', 'UTC', 30, 30, 20, 20)
            """,
        )
        for series, due in (("daily", 10), ("daily", 20), ("daily", 20), ("ended", 15)):
            insert = (
                "INSERT INTO schedule_runs (series_id, message_id, due_at, started_at) VALUES (:series, 'm', :due, 1)"
            )
            rows(conn, insert, {"series": series, "due": due})
    return path, conn


def test_runs_of_an_earlier_release_get_what_is_known_of_them(old):
    path, conn = old
    migrate(path)
    found = rows(conn, "SELECT due_at, recurrence, timezone, made_at, previous_due_at FROM schedule_runs ORDER BY id")
    assert found == [
        (10, "0 9 * * *", "UTC", None, None),
        (20, "0 9 * * *", "UTC", None, 10),
        (20, "0 9 * * *", "UTC", None, 20),
        (15, None, None, None, None),
    ]
