"""Migration 52: a database that has events begins to count with the next one, and reads none of the old."""

from shared.db.engine.connection import rows, transaction
from shared.db.engine.migrate import migrate
from shared.db.queue import events
from shared.db.views.monitoring import event_totals
from shared.db.views.monitoring.event_totals import EventTotal

BEFORE = "0052_event_totals"


def test_the_events_of_an_earlier_release_are_not_counted(before):
    path, conn = before
    rows(conn, "INSERT INTO events (id, type, agent, created_at) VALUES (41, 'message_dead', 'coder', 1)")
    assert migrate(path) >= 52
    assert event_totals.read(conn) == []
    with transaction(conn):
        events.append(conn, "message_dead", now_ms=2, agent="coder")
        assert event_totals.add_up(conn, limit=100) == 1
    assert event_totals.read(conn) == [EventTotal("message_dead", "coder", 1)]
