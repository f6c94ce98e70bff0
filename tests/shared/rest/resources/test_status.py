from shared.channels.base import Registration
from shared.conversation.access import channel_watch
from shared.db.engine.connection import transaction
from shared.db.platforms import channel_outages, channel_pauses
from shared.db.platforms.channel_outages import ChannelOutage
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


def test_a_channel_that_is_deaf_or_in_an_outage_says_why_and_what_mends_it(serving, conn):
    with transaction(conn):
        channel_watch.note(conn, "telegram", Registration(False, None), now_ms=NOW)
        channel_outages.begin(conn, ChannelOutage("discord", NOW, "server_error", "502", NOW + 5), now_ms=NOW)
    told = get(serving, "/api/status").json()["channels"]
    assert told == {
        "telegram": {
            "running": False,
            "lookedAt": NOW,
            "deaf": {
                "code": "not_registered",
                "reason": "no address is registered at the platform, so it sends events nowhere",
                "since": NOW,
                "command": "emulator channel telegram connect",
            },
        },
        "discord": {
            "running": False,
            "outage": {"code": "server_error", "reason": "502", "since": NOW, "nextProbeAt": NOW + 5},
        },
    }
    problems = " ".join(get(serving, "/api/health").json()["problems"])
    assert "To fix it: emulator channel telegram connect" in problems
    assert "discord can't send, and its answers wait: 502" in problems
