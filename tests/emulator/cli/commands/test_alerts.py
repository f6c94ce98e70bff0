"""``emulator alerts``: the routes of alerts, and what is not well."""

from shared.db.alerts import alerts, tellings
from shared.db.alerts.alerts import Trouble
from shared.db.engine.connection import transaction
from tests.emulator.cli.commands.conftest import Postroom
from tests.support import NOW, answer, make_chat


def test_a_route_is_added_changed_and_removed(postroom: Postroom) -> None:
    chat = str(make_chat(postroom.conn, "4242"))
    assert "No chat gets alerts" in postroom.run("alerts", "list").stdout
    added = postroom.run("alerts", "add", "ops", "--chat", chat, "--quiet-hours", "22:00-07:00", "--digest", "30m")
    assert f"Route ops notifies chat {chat} (telegram) of everything, quiet 22:00-07:00." in added.stdout
    changed = postroom.run("alerts", "add", "ops", "--kinds", "dead, disk", "--quiet-hours", "")
    assert f"Route ops notifies chat {chat} (telegram) of dead, disk." in changed.stdout
    (route,) = postroom.json("alerts", "list")["routes"]
    assert (route["kinds"], route["quietHours"], route["digestMs"]) == (["dead", "disk"], None, 1_800_000)
    notice = answer(postroom.conn, "It fills", chat="4242")
    with transaction(postroom.conn):
        alerts.note(postroom.conn, [Trouble("disk", "disk", "It fills", "So it is.", "Mend it.", NOW)], now_ms=NOW)
        tellings.begin(postroom.conn, 1, "ops", said_by="ops", response=notice, now_ms=NOW)
        refused = "UPDATE responses SET status = 'dead', failure = 'error', last_error = 'chat not found'"
        postroom.conn.execute(refused)
    shown = " ".join(postroom.run("alerts", "list").stdout.split())
    assert "It fills. So it is." in shown
    assert f"The alert, response {notice}, could not be sent: chat not found." in shown
    postroom.run("alerts", "remove", "ops")
    assert "there are: none" in postroom.refused("alerts", "remove", "ops", code=66)


def test_what_is_wrong_is_refused_with_the_reason(postroom: Postroom) -> None:
    chat = str(make_chat(postroom.conn, "4242"))
    assert "name a chat" in postroom.refused("alerts", "add", "new", code=65)
    assert "no hours of a day" in postroom.refused(
        "alerts", "add", "new", "--chat", chat, "--quiet-hours", "2", code=65
    )
    assert "unknown time zone" in postroom.refused("alerts", "add", "new", "--chat", chat, "--timezone", "M", code=65)
    assert "there is no chat 999" in postroom.refused("alerts", "add", "new", "--chat", "999", code=66)
    api = str(make_chat(postroom.conn, "me", "api"))
    assert "has no adapter" in postroom.refused("alerts", "add", "new", "--chat", api, code=65)
    assert "POSTROOM_ALERT_URL" in postroom.refused("alerts", "add", "new", "--webhook", code=65)
    assert "one place" in postroom.refused("alerts", "add", "new", "--chat", chat, "--webhook", code=64)
