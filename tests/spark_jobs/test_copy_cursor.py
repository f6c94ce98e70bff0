import subprocess
import sys

import apsw
import pytest

from spark_jobs.copy_cursor import CopyCursor, Error

PAGE = 4096


@pytest.fixture
def path(tmp_path):
    """A table of 2000 rows over some hundred pages."""
    path = tmp_path / "copy.db"
    conn = apsw.Connection(str(path))
    conn.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT")
    with conn:
        conn.executemany("INSERT INTO notes (text) VALUES (?)", [("x" * 200,)] * 2000)
    conn.close()
    return path


def cursor_on(path):
    return CopyCursor(f"file:{path}?mode=ro&immutable=1", 100)


def test_values_are_bound_and_a_cursor_runs_one_query_after_another(path):
    with cursor_on(path) as cursor:
        cursor.execute("SELECT id, id FROM notes WHERE id > ? AND text <> ?", (1997, "'; --"))
        assert cursor.fetchall() == [(1998, 1998), (1999, 1999), (2000, 2000)]
        cursor.execute("SELECT max(id) FROM notes WHERE id < 0")
        assert cursor.fetchall() == [(None,)]
        cursor.execute("SELECT id FROM notes WHERE id < 0")
        assert cursor.fetchall() == []


def test_each_type_of_sqlite_is_bound_as_it_is(path):
    with cursor_on(path) as cursor:
        values = ("hé", b"\x00\xff", -(2**63), 0.1, "", b"")
        cursor.execute("SELECT ?, ?, ?, ?, ?, ?", values)
        assert cursor.fetchall() == [values]


def test_a_result_comes_in_batches(path):
    with cursor_on(path) as cursor:
        cursor.execute("SELECT id FROM notes")
        assert [batch.num_rows for batch in cursor.batches()] == [100] * 20


def test_a_page_that_is_damaged_in_the_middle_of_a_result_is_an_error_too(path):
    with path.open("r+b") as file:
        file.seek(60 * PAGE)
        file.write(b"\xff" * PAGE)
    with cursor_on(path) as cursor:
        cursor.execute("SELECT id, text FROM notes")
        with pytest.raises(Error, match="malformed"):
            cursor.fetchall()


def test_a_query_that_sqlite_refuses_is_an_error(path):
    with cursor_on(path) as cursor, pytest.raises(Error, match="no such table: others"):
        cursor.execute("SELECT id FROM others")


def test_what_a_worker_loads_and_binds_needs_no_pandas(path):
    """It would take longer than all the rest, in each Python process of each query."""
    script = f"""
import sys
import spark_jobs.datasource
from spark_jobs.copy_cursor import CopyCursor
with CopyCursor("file:{path}?mode=ro", 100) as cursor:
    cursor.execute("SELECT id FROM notes WHERE id = ? OR text = ?", (7, "a"))
    print(cursor.fetchall(), "pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[(7,)] False\n"
