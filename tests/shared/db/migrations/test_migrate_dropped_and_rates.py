"""Migrations 11 and 12 add columns: what stood in the tables stays, and is used as before."""

from importlib.resources import files

import apsw

from shared.db.access import rates
from shared.db.access.rates import Size
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.migrate import migrate
from shared.db.views import history
from tests.support import NOW

SEED = """
    INSERT INTO meta (key, value) VALUES ('schema_version', '10'), ('epoch', 'epoch_12345678') ON CONFLICT DO NOTHING;
    INSERT INTO dropped (channel, platform_id, sender_id, reason, detail, created_at)
    VALUES ('telegram', '100', '5', 'sender_unknown', 'x', 7);
    INSERT INTO rates (key, full_at) VALUES ('full', :now), ('empty', :now + 60000);
"""


def test_rows_of_an_earlier_release_stay_and_are_used(tmp_path):
    path = tmp_path / "p.db"
    conn = apsw.Connection(str(path))
    folder = files("shared.db") / "migrations"
    for item in sorted(folder.iterdir(), key=lambda each: each.name):
        if item.name.endswith(".sql") and item.name < "0011":
            conn.execute(item.read_text("utf-8"))
    conn.execute(SEED, {"now": NOW})
    conn.close()
    migrate(path)
    conn = open_connection(path)
    (found,) = history.dropped(conn, limit=9)
    assert (found["code"], found["senderId"], found["sender"], found["messageId"]) == (
        "sender_unknown",
        "5",
        "",
        None,
    )
    with transaction(conn):
        taken = [
            rates.take(conn, key, per_minute=1, burst=1, size=Size(1, 100), now_ms=NOW).allowed
            for key in ("full", "empty", "new")
        ]
    assert taken == [True, False, True]
    assert rows(conn, "SELECT key, size_full_at_us FROM rates WHERE key = 'full'") == [("full", NOW * 1000 + 600_000)]
    conn.close()
