"""The address that was registered for an account, in Postroom's database."""

from pathlib import Path

import apsw

from emulator.storage import own_address
from shared.channels.base import Registration
from shared.conversation.access import channel_watch
from shared.db.engine.connection import transaction
from shared.db.platforms import channel_watches
from tests.support import NOW

OURS = "http://127.0.0.1:8080/webhooks/telegram"


def test_a_bot_that_was_taken_before_anything_came_in_is_known_to_be_taken(conn: apsw.Connection, db: Path) -> None:
    assert own_address.keep(db, "telegram", OURS)
    with transaction(conn):
        found = channel_watch.note(conn, "telegram", Registration(None, "https://other.example/x"), now_ms=NOW)
    assert (found.code, found.known_url) == ("elsewhere", OURS)


def test_where_there_is_no_database_of_ours_nothing_is_made(tmp_path: Path) -> None:
    assert not own_address.keep(tmp_path / "p.db", "telegram", OURS)
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "p.db").write_bytes(b"no database" * 1000)
    assert not own_address.keep(tmp_path / "p.db", "telegram", OURS)


def test_a_second_registration_replaces_the_address(conn: apsw.Connection, db: Path) -> None:
    for url in ("http://127.0.0.1:1/x", OURS):
        assert own_address.keep(db, "telegram", url)
    assert [each.known_url for each in channel_watches.every(conn).values()] == [OURS]
