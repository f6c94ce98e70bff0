"""The rows of the looks, and when an event came in."""

import apsw
import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.platforms import channel_watches
from shared.db.platforms.channel_watches import ChannelWatch
from tests.support import NOW


def heard(conn, now_ms, channel="telegram"):
    with transaction(conn):
        channel_watches.note_event(conn, channel, now_ms=now_ms)
    found = channel_watches.get(conn, channel)
    return found.heard_at if found else None


def test_an_event_is_noted_every_ten_seconds_and_once_after_each_look(conn):
    assert heard(conn, NOW) is None, "the first look makes the row"
    look = ChannelWatch("telegram", NOW, None, None, None, "well", None, None, NOW)
    with transaction(conn):
        channel_watches.put(conn, look)
    assert [heard(conn, NOW + ms) for ms in (1, 2, 10_000, 10_001)] == [NOW + 1, NOW + 1, NOW + 1, NOW + 10_001]
    with transaction(conn):
        channel_watches.put(conn, look._replace(looked_at=NOW + 10_005, heard_at=NOW + 10_001))
    assert heard(conn, NOW + 10_006) == NOW + 10_006
    assert heard(conn, NOW + 10_007, "discord") is None


def test_our_address_is_kept_with_what_the_last_look_found(conn):
    with transaction(conn):
        channel_watches.note_ours(conn, "telegram", "https://a", now_ms=NOW)
        assert channel_watches.get(conn, "telegram").known_url == "https://a"
        found = ChannelWatch("telegram", NOW, "https://b", None, 3, "deaf", "elsewhere", "why", NOW, NOW - 9)
        channel_watches.put(conn, found)
        channel_watches.note_ours(conn, "telegram", "https://c", now_ms=NOW + 1)
    assert channel_watches.get(conn, "telegram") == found._replace(url="https://c", known_url="https://c")


def test_a_deaf_row_has_its_reason(conn):
    with pytest.raises(apsw.ConstraintError):
        rows(conn, "INSERT INTO channel_watches (channel, looked_at, state, since) VALUES ('telegram', 1, 'deaf', 1)")
