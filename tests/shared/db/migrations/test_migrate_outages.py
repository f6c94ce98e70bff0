"""Columns and a table for outages of platforms and for cut parts, added to a file of an earlier release."""

import apsw
import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.engine.migrate import migrate
from shared.db.queue import responses
from tests.support import NOW, answer, column

BEFORE = "0009"


@pytest.fixture
def old(before):
    """A file of the release before, with an open response."""
    path, conn = before
    answer(conn)
    return path, conn


def test_an_open_response_of_an_earlier_release_is_sent(old):
    path, conn = old
    migrate(path)
    with transaction(conn):
        claimed = responses.claim(conn, 1, token="t", now_ms=NOW, lease_ms=1000)
        assert (claimed.unsent_since, claimed.cuts) == (None, ())
        responses.ack(conn, claimed, ("m1",), now_ms=NOW)
    assert column(conn, "SELECT status FROM responses") == ["acked"]
    assert column(conn, "PRAGMA integrity_check") == ["ok"]


def test_another_connection_sees_the_new_columns_at_once(old):
    path, conn = old  # its connection has read the schema before
    migrate(path)
    assert rows(conn, "SELECT unsent_since, cuts FROM responses") == [(None, None)]
    assert column(conn, "SELECT count(*) FROM channel_pauses") == [0]


def test_a_schema_in_other_words_is_refused_and_not_half_edited(old):
    path, conn = old
    with transaction(conn):
        rows(conn, "PRAGMA writable_schema = ON")
        rows(
            conn,
            "UPDATE sqlite_schema SET sql = replace(sql, '(status = ''delivering'')', '(status=''delivering'')')"
            " WHERE name = 'responses'",
        )
        rows(conn, "PRAGMA writable_schema = RESET")
    before = rows(conn, "SELECT name, sql FROM sqlite_schema")
    with pytest.raises(apsw.Error):
        migrate(path)
    assert rows(conn, "SELECT name, sql FROM sqlite_schema") == before


def test_cuts_are_json(old):
    path, conn = old
    migrate(path)
    with pytest.raises(apsw.ConstraintError), transaction(conn):
        rows(conn, "UPDATE responses SET cuts = 'first'")
