"""The tables of usage and budgets, added to a file of an earlier release."""

from importlib.resources import files

from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.migrate import migrate
from shared.db.spending import budgets
from tests.support import NOW, column

BEFORE = "0016"
MIGRATIONS = files("shared.db") / "migrations"


def test_an_earlier_file_gets_empty_tables_and_takes_a_budget(tmp_path):
    path = tmp_path / "p.db"
    conn = open_connection(path)
    names = sorted(item.name for item in MIGRATIONS.iterdir() if item.name < BEFORE)
    with transaction(conn):
        for name in names:
            rows(conn, (MIGRATIONS / name).read_text("utf-8"))
        meta.put(conn, "schema_version", str(int(names[-1][:4])))
    migrate(path)
    with transaction(conn):
        budgets.put(conn, None, "day", "money", 5, now_ms=NOW)
    assert len(budgets.every(conn)) == 1
    assert column(conn, "SELECT count(*) FROM usage") == [0]
    assert column(conn, "PRAGMA integrity_check") == ["ok"]
    conn.close()
