"""What the chat page is told about the channels."""

from emulator.system.unwell import unwell
from shared.channels.base import Registration
from shared.conversation.access import channel_watch
from shared.db.engine.connection import rows, transaction
from shared.db.platforms import channel_pauses
from tests.support import NOW


def test_a_paused_or_deaf_channel_is_a_sentence_with_what_mends_it(conn, db):
    assert unwell(db) == []
    with transaction(conn):
        channel_watch.note(conn, "telegram", Registration(False, None), now_ms=NOW)
        channel_pauses.pause(conn, "discord", "Unauthorized", check_at=NOW, now_ms=NOW)
    paused, deaf = unwell(db)
    assert paused == "discord is paused, and its answers wait: Unauthorized. Set the right token and restart"
    assert deaf.endswith("To mend it: emulator channel telegram connect")


def test_a_database_that_is_not_ready_says_nothing(conn, db, tmp_path):
    assert unwell(tmp_path / "none.db") == []
    rows(conn, "DROP TABLE channel_watches")
    assert unwell(db) == []
