"""The rows of the looks, and the newest event of a channel."""

import apsw
import pytest

from shared.db.access import dropped
from shared.db.engine.connection import rows
from shared.db.platforms import channel_watches
from shared.db.queue import event_keys
from tests.support import NOW, put


def test_the_newest_event_is_a_message_a_drop_or_a_key_of_that_channel(conn):
    assert channel_watches.last_event_at(conn, "telegram") is None
    put(conn, event_key="1", now_ms=NOW)
    put(conn, now_ms=NOW + 500)  # of no platform
    assert channel_watches.last_event_at(conn, "telegram") == NOW
    event_keys.add(conn, "telegram", "2", now_ms=NOW + 1)
    event_keys.add(conn, "discord", "3", now_ms=NOW + 900)
    assert channel_watches.last_event_at(conn, "telegram") == NOW + 1
    dropped.record(conn, channel="telegram", reason="why", now_ms=NOW + 2)
    assert channel_watches.last_event_at(conn, "telegram") == NOW + 2


def test_a_deaf_row_has_its_reason(conn):
    with pytest.raises(apsw.ConstraintError):
        rows(conn, "INSERT INTO channel_watches (channel, looked_at, state, since) VALUES ('telegram', 1, 'deaf', 1)")
