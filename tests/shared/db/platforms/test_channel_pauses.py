from shared.db.engine.connection import transaction
from shared.db.platforms import channel_pauses
from shared.db.platforms.channel_pauses import ChannelPause
from tests.support import NOW, column


def pause(conn, channel="telegram", reason="401", now_ms=NOW):
    with transaction(conn):
        return channel_pauses.pause(conn, channel, reason, check_at=now_ms + 60_000, now_ms=now_ms)


def test_the_first_refusal_pauses_a_channel_and_later_ones_change_nothing(conn):
    assert pause(conn)
    assert not pause(conn, reason="again", now_ms=NOW + 5)
    assert pause(conn, "discord")
    assert channel_pauses.every(conn)["telegram"] == ChannelPause("telegram", "401", NOW, NOW + 60_000)
    assert column(conn, "SELECT channel FROM events WHERE type = 'channel_paused'") == ["telegram", "discord"]


def test_a_channel_resumes_once(conn):
    pause(conn)
    pause(conn, "discord")
    with transaction(conn):
        assert channel_pauses.resume(conn, "telegram", now_ms=NOW + 1)
        assert not channel_pauses.resume(conn, "telegram", now_ms=NOW + 2)
    assert list(channel_pauses.every(conn)) == ["discord"]
    assert column(conn, "SELECT channel FROM events WHERE type = 'channel_resumed'") == ["telegram"]


def test_a_new_process_checks_at_once_what_was_postponed(conn):
    pause(conn)
    with transaction(conn):
        channel_pauses.postpone(conn, "telegram", "still 401", check_at=NOW + 600_000)
        channel_pauses.check_now(conn, now_ms=NOW + 7)
    assert channel_pauses.every(conn)["telegram"] == ChannelPause("telegram", "still 401", NOW, NOW + 7)
