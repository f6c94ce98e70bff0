"""A dataclass as the row of a table."""

from dataclasses import dataclass
from typing import Annotated, Any

import apsw
import pytest

from shared.db.engine.columns import Columns, bound, listed, replaced


@dataclass(frozen=True, slots=True)
class Row:
    id: int
    is_open: bool
    tags: Annotated[list[str], "limit"]
    config: dict[str, Any]
    name: str | None


ROW = Row(1, True, ["a"], {"deep": [None]}, None)


@pytest.fixture
def conn():
    there = apsw.Connection(":memory:")
    there.execute(
        "CREATE TABLE things (id INTEGER PRIMARY KEY, is_open INTEGER, tags TEXT, config TEXT, name TEXT) STRICT"
    )
    yield there
    there.close()


def test_a_row_is_stored_and_read_as_it_was(conn):
    columns = Columns(Row)
    names = ("id", "is_open", "tags", "config", "name")
    save = (
        f"INSERT INTO things ({listed(names)}) VALUES ({bound(names)}) ON CONFLICT DO UPDATE SET {replaced(names[1:])}"
    )
    for row in (ROW, Row(1, False, [], {}, "x")):
        conn.execute(save, columns.bindings(row))
        assert columns.read(conn.execute(f"SELECT {columns.selected} FROM things").fetchone()) == row


def test_a_truth_value_is_a_number_and_a_list_is_json(conn):
    bindings = Columns(Row).bindings(ROW)
    stored = conn.execute("SELECT :is_open, :tags, json(:config)", bindings).fetchone()
    assert stored == (1, '["a"]', '{"deep":[null]}')


def test_a_column_too_many_is_an_error():
    with pytest.raises(ValueError, match="zip"):
        Columns(Row).read((1, 0, "[]", "{}", None, "more"))


def test_the_columns_of_a_join_have_their_table():
    assert listed(("id", "name"), "w.") == "w.id, w.name"
