"""Counters from rows that are pruned: no event is lost or counted twice, whoever adds up and prunes meanwhile."""

import pytest

from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import events
from shared.db.views.monitoring import event_totals
from shared.db.views.monitoring.event_totals import EventTotal
from tests.support import NOW, begin_epoch, plan


def happen(conn, type_, count=1, **fields):
    with transaction(conn):
        for _ in range(count):
            events.append(conn, type_, now_ms=NOW, **fields)


def add_up(conn, limit=1000):
    with transaction(conn):
        return event_totals.add_up(conn, limit=limit)


def test_what_a_channel_does_is_counted_by_channel_and_the_rest_by_agent(conn):
    happen(conn, "response_acked", 2, agent="coder", channel="telegram")
    happen(conn, "channel_deaf", channel="discord")
    happen(conn, "message_dead", agent="coder", channel="telegram")
    happen(conn, "processor_start")
    assert event_totals.read(conn) == [
        EventTotal("channel_deaf", "discord", 1),
        EventTotal("message_dead", "coder", 1),
        EventTotal("processor_start", "", 1),
        EventTotal("response_acked", "telegram", 2),
    ]


@pytest.mark.parametrize("added_up", range(6))
def test_the_sums_are_the_same_however_much_is_added_up(conn, added_up):
    happen(conn, "message_dead", 3, agent="coder")
    happen(conn, "message_retry", 2, agent="coder")
    if added_up:
        assert add_up(conn, added_up) == added_up
    assert set(event_totals.read(conn)) == {
        EventTotal("message_dead", "coder", 3),
        EventTotal("message_retry", "coder", 2),
    }


def test_no_counter_falls_when_events_are_pruned(conn):
    happen(conn, "message_dead", 5, agent="coder")
    assert add_up(conn) == 5
    with transaction(conn):
        assert events.prune(conn, older_than_ms=NOW + 1, limit=100) == 4
    happen(conn, "message_dead", agent="coder")
    assert event_totals.read(conn) == [EventTotal("message_dead", "coder", 6)]
    assert (add_up(conn), add_up(conn)) == (1, 0)
    assert event_totals.read(conn) == [EventTotal("message_dead", "coder", 6)]


def test_what_is_not_added_up_is_not_pruned(conn):
    happen(conn, "message_dead", 5, agent="coder")
    add_up(conn, 2)
    with transaction(conn):
        assert events.prune(conn, older_than_ms=NOW + 1, limit=100) == 2
    assert event_totals.read(conn) == [EventTotal("message_dead", "coder", 5)]


def test_a_reader_sees_the_sums_and_the_events_of_one_instant(conn, db):
    happen(conn, "message_dead", 5, agent="coder")
    reader = open_connection(db, readonly=True)
    with reader:
        assert rows(reader, "SELECT count(*) FROM event_totals") == [(0,)]
        add_up(conn)
        assert event_totals.read(reader) == [EventTotal("message_dead", "coder", 5)]
    reader.close()


def test_where_nothing_adds_up_a_reader_reads_a_limited_number(conn):
    with transaction(conn):
        sql = "INSERT INTO events (id, type, agent, created_at) VALUES (?, 'message_dead', 'coder', 1)"
        conn.executemany(sql, ((each,) for each in range(1, event_totals.LONGEST_TAIL + 2)))
    assert event_totals.read(conn) == [EventTotal("message_dead", "coder", event_totals.LONGEST_TAIL)]


def test_a_restore_holds_no_sum_up(conn):
    """The ids that it leaves out are no events that have to be read."""
    happen(conn, "message_dead", 2, agent="coder")
    begin_epoch(conn)
    happen(conn, "message_dead", 3, agent="coder")
    whole = [EventTotal("message_dead", "coder", 5), EventTotal("epoch_began", "", 1)]
    assert set(event_totals.read(conn)) == set(whole)
    assert (add_up(conn, 4), add_up(conn, 4)) == (4, 2)
    assert set(event_totals.read(conn)) == set(whole)


def test_names_keep_the_order_in_which_they_came(conn):
    for agent in ("zoe", "amy"):
        happen(conn, "message_dead", agent=agent)
        add_up(conn)
    happen(conn, "message_dead", agent="bob")
    assert [each.name for each in event_totals.read(conn)] == ["zoe", "amy", "bob"]


def test_only_new_events_are_read(conn):
    assert plan(conn, event_totals.NEXT, after=1, limit=2) == [
        "CO-ROUTINE (subquery-1)",
        "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)",
        "SCAN (subquery-1)",
    ]
    assert plan(conn, event_totals.NEW, after=1, last=2) == [
        "SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        "USE TEMP B-TREE FOR GROUP BY",
    ]


def test_an_older_database_begins_to_count_with_its_next_event(conn):
    assert meta.get(conn, "events_counted") == "0"
