from shared.db.engine.connection import transaction
from shared.db.queue import channel_pauses
from tests.api_client import get
from tests.support import NOW, make_chat, wire


def test_a_paused_channel_says_why_and_when_it_is_checked_again(serving, conn):
    wire(conn, make_chat(conn))
    with transaction(conn):
        for channel in ("telegram", "discord"):
            channel_pauses.pause(conn, channel, "Unauthorized", check_at=NOW + 60_000, now_ms=NOW)
    paused = {"reason": "Unauthorized", "since": NOW, "nextCheckAt": NOW + 60_000}
    expected = {name: {"running": False, "paused": paused} for name in ("telegram", "discord")}
    assert get(serving, "/api/status").json()["channels"] == expected
