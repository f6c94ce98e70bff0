"""The tables of usage and budgets, added to a file of an earlier release."""

from shared.db.engine.connection import transaction
from shared.db.engine.migrate import migrate
from shared.db.spending import budgets
from tests.support import NOW, column

BEFORE = "0016"


def test_an_earlier_file_gets_empty_tables_and_takes_a_budget(before):
    path, conn = before
    migrate(path)
    with transaction(conn):
        budgets.put(conn, None, "day", "money", 5, now_ms=NOW)
    assert len(budgets.every(conn)) == 1
    assert column(conn, "SELECT count(*) FROM usage") == [0]
    assert column(conn, "PRAGMA integrity_check") == ["ok"]
