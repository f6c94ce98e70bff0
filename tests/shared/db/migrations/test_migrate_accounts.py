"""Migration 23: the bots of an earlier release are the first accounts of their platforms."""

import apsw

from shared.db.access import users
from shared.db.engine import schema
from shared.db.engine.connection import open_connection, rows
from shared.db.engine.migrate import migrate
from shared.db.roster import accounts, chats


def old_database(path):
    """A database of schema 22, with chats on Telegram and over REST, and an owner."""
    old = apsw.Connection(str(path))
    for version in sorted(each for each in schema.migrations() if each < 23):
        rows(old, schema.migrations()[version])
    rows(old, "INSERT INTO meta (key, value) VALUES ('schema_version', '22')")
    for channel in ("telegram", "web-client"):
        rows(
            old,
            "INSERT INTO chats (channel, platform_id, created_at, updated_at) VALUES (?, '5', 1, 1)",
            (channel,),
        )
    rows(
        old,
        "INSERT INTO users (channel, sender_id, created_at, updated_at) VALUES ('telegram', '5', 1, 1)",
    )
    old.close()


def test_chats_and_people_of_an_earlier_release_belong_to_the_first_account(tmp_path):
    path = tmp_path / "old.db"
    old_database(path)
    assert migrate(path) >= 23
    conn = open_connection(path)
    (first,) = accounts.every(conn)
    assert (first.name, first.platform, first.status, first.agent) == ("telegram", "telegram", "active", None)
    assert chats.find(conn, "telegram", "5").status == "active"
    assert users.find(conn, "telegram", "5") == users.find(conn, "telegram.sales", "5")
    assert users.find(conn, "web-client", "5") is None
    conn.close()


def test_a_database_without_chats_gets_no_account(tmp_path):
    path = tmp_path / "old.db"
    old_database(path)
    old = apsw.Connection(str(path))
    rows(old, "DELETE FROM chats")
    old.close()
    migrate(path)
    conn = open_connection(path)
    assert accounts.every(conn) == []
    conn.close()
