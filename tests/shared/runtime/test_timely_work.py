"""Work counts only where it ends before its caller gives up."""

import pytest

from shared.db.engine.connection import open_connection, rows, transaction
from shared.runtime.timely_work import GivenUp, TimelyWork


@pytest.fixture
def table(tmp_path):
    conn = open_connection(tmp_path / "timely.db")
    rows(conn, "CREATE TABLE kept (n INTEGER)")
    yield conn
    conn.close()


def insert(conn):
    rows(conn, "INSERT INTO kept VALUES (1)")
    return "stored"


def test_work_that_is_done_first_counts(table):
    work = TimelyWork(insert)
    with transaction(table):
        assert work(table) == "stored"
    assert not work.give_up()
    assert rows(table, "SELECT n FROM kept") == [(1,)]


def test_work_that_was_given_up_does_not_begin(table):
    work = TimelyWork(insert)
    assert work.give_up()
    with pytest.raises(GivenUp), transaction(table):
        work(table)
    assert rows(table, "SELECT n FROM kept") == []


def test_work_that_is_given_up_while_it_runs_keeps_nothing(table):
    def insert_slowly(conn):
        insert(conn)
        assert work.give_up()

    work = TimelyWork(insert_slowly)
    with pytest.raises(GivenUp), transaction(table):
        work(table)
    assert rows(table, "SELECT n FROM kept") == []
