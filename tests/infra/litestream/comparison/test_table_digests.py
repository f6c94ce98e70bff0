"""The differences that a comparison of two databases sees."""

import apsw
import pytest

from infra.litestream.comparison import table_digests
from infra.litestream.comparison.table_digests import TableDifference
from shared.db.engine import meta
from shared.db.engine.connection import transaction
from tests.support import make_agent, make_chat, put


def database(*statements: str) -> apsw.Connection:
    conn = apsw.Connection(":memory:")
    for statement in statements:
        conn.execute(statement)
    return conn


def differences(one: apsw.Connection, two: apsw.Connection) -> list[TableDifference]:
    return table_digests.differences(table_digests.read(one), table_digests.read(two))


PLAIN = "CREATE TABLE t (a, b)"
KEYED = "CREATE TABLE k (a, b, PRIMARY KEY (b, a)) WITHOUT ROWID"


def test_every_table_of_ours_is_read(conn: apsw.Connection) -> None:
    make_agent(conn, "one")
    make_chat(conn)
    put(conn, "hello")
    with transaction(conn):
        meta.put(conn, "x", "y")
    found = table_digests.read(conn)
    names = {name for (name,) in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert set(found) == {"sqlite_schema", *names}
    counts = {name: conn.execute(f'SELECT count(*) FROM "{name}"').fetchall()[0][0] for name in names}
    assert {name: table.rows for name, table in found.items() if name != "sqlite_schema"} == counts


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("(1, 'x')", "(1, 'y')"),
        ("(1, 'x')", "('1', 'x')"),
        ("(1, 'x')", "(1, x'78')"),
        ("(1, NULL)", "(1, '')"),
        ("(1, 2)", "(1, 2.0)"),
        ("(1, 2), (3, 4)", "(3, 4), (1, 2)"),
        ("(1, CAST(x'ff' AS TEXT))", "(1, CAST(x'fe' AS TEXT))"),
        ("(1, CAST(x'ff' AS TEXT))", "(1, x'ff')"),
    ],
)
def test_a_changed_row_changes_the_digest(here: str, there: str) -> None:
    one = database(PLAIN, f"INSERT INTO t VALUES {here}")
    two = database(PLAIN, f"INSERT INTO t VALUES {there}")
    count = table_digests.read(one)["t"].rows
    assert differences(one, two) == [TableDifference("t", count, count)]


def test_a_row_under_another_rowid_changes_the_digest() -> None:
    one = database(PLAIN, "INSERT INTO t VALUES (1, 2)")
    two = database(PLAIN, "INSERT INTO t (rowid, a, b) VALUES (7, 1, 2)")
    assert differences(one, two) == [TableDifference("t", 1, 1)]


def test_invalid_utf8_is_read_too() -> None:
    statements = (PLAIN, "INSERT INTO t VALUES (1, 'x'), (2, CAST(x'ff' AS TEXT)), (3, 'y')")
    assert differences(database(*statements), database(*statements)) == []
    assert table_digests.read(database(*statements))["t"].rows == 3


def test_the_insertion_order_of_a_table_without_rowids_does_not_matter() -> None:
    one = database(KEYED, "INSERT INTO k VALUES (1, 9), (2, 8)")
    two = database(KEYED, "INSERT INTO k VALUES (2, 8), (1, 9)")
    assert differences(one, two) == []


def test_missing_rows_and_tables_are_counted_on_both_sides() -> None:
    one = database(PLAIN, KEYED, "INSERT INTO k VALUES (1, 2)", "INSERT INTO t VALUES (1, 2), (3, 4)")
    two = database(PLAIN, "INSERT INTO t VALUES (1, 2)")
    assert differences(one, two) == [
        TableDifference("k", 1, None),
        TableDifference("sqlite_schema", 2, 1),
        TableDifference("t", 2, 1),
    ]


def test_a_table_larger_than_one_batch_is_read_to_its_end() -> None:
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1234)"
    many = f"{numbers} INSERT INTO t SELECT i, i FROM n"
    one, two = database(PLAIN, many), database(PLAIN, many, "UPDATE t SET b = 0 WHERE a = 1234")
    assert table_digests.read(one)["t"].rows == 1234
    assert differences(one, two) == [TableDifference("t", 1234, 1234)]


def test_another_index_changes_the_schema() -> None:
    one, two = database(PLAIN, "CREATE INDEX i ON t (a)"), database(PLAIN, "CREATE INDEX i ON t (b)")
    assert differences(one, two) == [TableDifference("sqlite_schema", 2, 2)]


def test_tables_of_litestream_are_left_out() -> None:
    its = ("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq)", "INSERT INTO _litestream_seq VALUES (1, 7)")
    assert differences(database(PLAIN), database(PLAIN, *its)) == []
