"""Rows of two databases, side by side."""

import apsw
import pytest

from infra.litestream.comparison.row_differences import RowDifferences, compare


def database(*statements):
    conn = apsw.Connection(":memory:")
    for each in statements:
        conn.execute(each)
    return conn


ROWID = "CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT) STRICT"
KEYED = "CREATE TABLE t (a TEXT, b INTEGER, text TEXT, PRIMARY KEY (a, b)) STRICT, WITHOUT ROWID"


def filled(schema, *rows):
    return database(schema, *(f"INSERT INTO t VALUES {row}" for row in rows))


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        ([], [], (0, 0, 0, 0, 0, None)),
        (["(1, 'a')"], ["(1, 'a')"], (1, 1, 0, 0, 0, None)),
        (["(1, 'a')", "(7, 'b')", "(9, 'c')"], ["(1, 'a')"], (3, 1, 2, 0, 0, "7")),
        (["(1, 'a')", "(2, 'b')"], ["(1, 'a')", "(2, 'B')"], (2, 2, 0, 1, 0, None)),
        (["(2, 'b')", "(3, NULL)"], ["(1, 'a')", "(3, NULL)"], (2, 2, 1, 0, 1, "2")),
        ([], ["(1, 'a')"], (0, 1, 0, 0, 1, None)),
    ],
    ids=["empty", "equal", "lost", "changed", "extra", "only there"],
)
def test_rows_by_their_number(here, there, expected):
    assert compare(filled(ROWID, *here), filled(ROWID, *there), "t") == RowDifferences("t", *expected)


def test_rows_by_a_key_of_several_columns():
    here = filled(KEYED, "('ä', 1, 'x')", "('a', 2, 'x')", "('a', 10, 'x')")
    there = filled(KEYED, "('ä', 1, 'y')", "('a', 2, 'x')")
    assert compare(here, there, "t") == RowDifferences("t", 3, 2, 1, 1, 0, "a, 10")


def test_a_table_that_is_missing_has_no_rows():
    assert compare(filled(ROWID, "(1, 'a')"), database(), "t") == RowDifferences("t", 1, 0, 1, 0, 0, "1")
