"""A channel that receives nothing, noticed from facts."""

import json

import pytest

from shared.channels.base import Registration
from shared.conversation.access import channel_watch
from shared.conversation.access.channel_watch import is_due, judge
from shared.db.alerts import alerts
from shared.db.alerts.alert_routes import PLACE, STUCK, WEBHOOK
from shared.db.alerts.alerts import Trouble
from shared.db.engine.connection import rows, transaction
from shared.db.platforms import channel_watches
from shared.db.platforms.channel_watches import ChannelWatch
from shared.db.roster import chats
from shared.roster import alert_routes
from tests.approval_requests import person
from tests.support import NOW, column, make_chat

OURS = "https://bot.example/webhooks/telegram"
OTHER = "https://other.example/webhooks/telegram"
MINUTE = 60_000


def watch(*, backlog=0, state="well", code=None, looked_at=NOW - 5 * MINUTE, url=OURS, known_url=OURS):
    reason = "why" if code else None
    return ChannelWatch("telegram", looked_at, url, known_url, backlog, state, code, reason, looked_at)


BEFORE, AFTER = NOW - 10 * MINUTE, NOW - MINUTE  # the look that came before this one
FACTS = {
    "well": (Registration(True, OURS, 0), watch(), AFTER, None),
    "taken away": (Registration(False, None), watch(), AFTER, "not_registered"),
    "taken over, the adapter knows": (Registration(False, OTHER, 0), None, None, "elsewhere"),
    "taken over, by our memory": (Registration(None, OTHER, 0), watch(), BEFORE, "elsewhere"),
    "no memory yet": (Registration(None, OTHER, 0), None, None, None),
    "kinds left out": (Registration(True, OURS, 0, ("callback_query",)), watch(), AFTER, "kinds_missing"),
    "a failure after the last event": (
        Registration(True, OURS, 2, last_error="401 Unauthorized", last_error_at_ms=AFTER), watch(), BEFORE, "failing",
    ),
    "an old failure, then events came in": (
        Registration(True, OURS, 2, last_error="502", last_error_at_ms=BEFORE), watch(backlog=5), AFTER, None,
    ),
    "a failure whose event is delivered or given up": (
        Registration(True, OURS, 0, last_error="502", last_error_at_ms=AFTER), watch(), BEFORE, None,
    ),
    "the application is another one": (
        Registration(False, OURS, last_error="the token is of another application"), watch(), None, "failing",
    ),
    "a backlog grows and nothing comes in": (Registration(True, OURS, 3), watch(backlog=2), BEFORE, "backlog"),
    "a backlog grows while events come in": (Registration(True, OURS, 3), watch(backlog=2), AFTER, None),
    "a backlog shrinks": (Registration(True, OURS, 1), watch(backlog=2, state="deaf", code="backlog"), BEFORE, None),
    "a backlog that was told stays": (
        Registration(True, OURS, 2), watch(backlog=2, state="deaf", code="backlog"), BEFORE, "backlog",
    ),
    "a first backlog": (Registration(True, OURS, 9), None, None, None),
}  # fmt: skip


@pytest.mark.parametrize(("found", "last", "event_at", "code"), FACTS.values(), ids=list(FACTS))
def test_judge(found, last, event_at, code):
    known_url = last.known_url if last else None
    verdict = judge(found, last, known_url=known_url, last_event_at=event_at)
    assert (verdict.code if verdict else None) == code


@pytest.mark.parametrize(
    ("last", "due"),
    [
        (None, True),
        (watch(looked_at=NOW - 4 * MINUTE), True),
        (watch(looked_at=NOW - 4 * MINUTE + 1), False),
        (watch(looked_at=NOW - 1, backlog=1), True),
        (watch(looked_at=NOW + 9), True),
    ],
)
def test_a_look_is_due_every_four_minutes_or_while_events_wait(last, due):
    assert is_due(last, now_ms=NOW) is due


def look(conn, found, now_ms, channel="telegram"):
    with transaction(conn):
        return channel_watch.note(conn, channel, found, now_ms=now_ms)


def hear(conn, now_ms, channel="telegram"):
    """An event comes in to the registered address."""
    with transaction(conn):
        channel_watch.heard(conn, channel, now_ms=now_ms)


def told(conn):
    return column(conn, "SELECT message FROM responses ORDER BY id")


def test_an_owner_is_told_once_with_the_command_and_once_when_it_is_well_again(conn):
    person(conn, "7", "owner")
    make_chat(conn, "7")
    look(conn, Registration(True, OURS, 0), NOW)
    for minute in (5, 10, 15):
        look(conn, Registration(False, OTHER, minute), NOW + minute * MINUTE)
    look(conn, Registration(True, OURS, 0), NOW + 20 * MINUTE)
    look(conn, Registration(True, OURS, 0), NOW + 25 * MINUTE)
    bad, good = told(conn)
    assert OTHER.removeprefix("https://") in bad.replace("\\", "")
    assert bad.endswith(f"`emulator channel telegram connect --url {OURS} --take-over`")
    assert good == "telegram receives messages again."
    events = rows(conn, "SELECT type, created_at FROM events WHERE type GLOB 'channel_*' ORDER BY id")
    assert events == [("channel_deaf", NOW + 5 * MINUTE), ("channel_hears", NOW + 20 * MINUTE)]


@pytest.mark.parametrize(
    ("place", "kinds", "deaf", "refused"),
    [
        ("telegram", [], 0, 1),  # it is refused there, so an alert waits, and an owner is told elsewhere
        ("discord", [], 0, 0),
        ("discord", ["money"], 1, 1),
    ],
)
def test_what_an_alert_tells_no_owner_is_told_as_well(conn, place, kinds, deaf, refused):
    person(conn, "7", "owner", channel="discord")
    make_chat(conn, "7", "discord")
    with transaction(conn):
        alert_routes.save(conn, "ops", make_route_chat(conn, place), {"kinds": kinds}, now_ms=NOW)
    look(conn, Registration(True, None), NOW)
    assert len(told(conn)) == deaf
    with transaction(conn):
        channel_watch.tell_paused(conn, "telegram", "Unauthorized", now_ms=NOW)
    assert len(told(conn)) == deaf + refused


@pytest.mark.parametrize(("over_at", "told_owner"), [(None, 1), (NOW, 0)])
def test_an_owner_is_told_where_the_webhook_of_alerts_takes_none(conn, over_at, told_owner):
    person(conn, "7", "owner", channel="discord")
    make_chat(conn, "7", "discord")
    with transaction(conn):
        webhook = chats.ensure(conn, WEBHOOK, PLACE, is_group=False, now_ms=NOW)
        alert_routes.save(conn, "pager", webhook.id, {}, now_ms=NOW)
        alerts.note(conn, [Trouble(STUCK, "stuck", "It takes none", "", "", NOW)], now_ms=NOW)
        rows(conn, "UPDATE alerts SET over_at = :over", {"over": over_at})
    look(conn, Registration(True, None), NOW)
    assert len(told(conn)) == told_owner


def make_route_chat(conn, channel):
    return chats.ensure(conn, channel, "900", is_group=True, now_ms=NOW).id


def test_nothing_is_lost_where_no_owner_can_be_told(conn):
    look(conn, Registration(None, None), NOW)
    assert told(conn) == []
    (found,) = channel_watches.deaf(conn)
    assert (found.code, found.since) == ("not_registered", NOW)
    assert channel_watch.command(found) == "emulator channel telegram connect"
    assert channel_watch.troubles(conn) == [channel_watch.sentence(found)]


def test_the_command_names_the_account_and_the_address_that_was_ours():
    further = channel_watches.ChannelWatch(
        *("telegram.sales", NOW, None, "https://bot.example/webhooks/telegram.sales", None, "deaf", None, None, NOW)
    )
    assert channel_watch.command(further) == (
        "emulator channel telegram connect --account sales --url https://bot.example/webhooks/telegram.sales"
    )


def test_the_address_under_which_events_come_in_is_ours_from_then_on(conn):
    look(conn, Registration(None, OURS, 0), NOW)
    assert look(conn, Registration(None, OTHER, 0), NOW + 5 * MINUTE).state == "well"
    hear(conn, NOW + 6 * MINUTE)
    assert look(conn, Registration(None, OTHER, 0), NOW + 10 * MINUTE).known_url == OTHER
    moved = look(conn, Registration(None, OURS, 0), NOW + 15 * MINUTE)
    assert (moved.state, moved.code) == ("deaf", "elsewhere")
    hear(conn, NOW + 16 * MINUTE)
    assert look(conn, Registration(None, OURS, 0), NOW + 20 * MINUTE).state == "well"


def test_a_bot_that_another_program_took_before_any_event_came_in_is_deaf(conn):
    """``connect`` and the emulator write the address that they register: nothing has to come in first."""
    with transaction(conn):
        channel_watches.note_ours(conn, "telegram", OURS, now_ms=NOW)
    stolen = look(conn, Registration(None, OTHER, 0), NOW + MINUTE)
    assert (stolen.code, stolen.known_url) == ("elsewhere", OURS)
    with transaction(conn):
        channel_watches.note_ours(conn, "telegram", OURS, now_ms=NOW + 2 * MINUTE)
    assert look(conn, Registration(None, OURS, 0), NOW + 3 * MINUTE).state == "well"


def test_the_settings_name_our_address_also_where_it_was_never_registered(conn):
    stolen = look(conn, Registration(False, OTHER, 0, ours=OURS), NOW)
    assert channel_watch.command(stolen) == f"emulator channel telegram connect --url {OURS} --take-over"


def test_an_event_on_its_way_says_nothing_for_the_address_of_another_program(conn):
    with transaction(conn):
        channel_watches.note_ours(conn, "telegram", OURS, now_ms=NOW)
    look(conn, Registration(None, OTHER, 0), NOW + MINUTE)
    hear(conn, NOW + MINUTE + 10_000)
    assert look(conn, Registration(None, OTHER, 0), NOW + 5 * MINUTE).code == "elsewhere"


def test_an_event_that_comes_in_ends_deafness_at_once(conn):
    person(conn, "7", "owner")
    make_chat(conn, "7")
    look(conn, Registration(True, OURS, 0), NOW)
    look(conn, Registration(False, None), NOW + 5 * MINUTE)
    hear(conn, NOW + 6 * MINUTE)
    assert channel_watches.deaf(conn) == []
    assert told(conn)[1:] == ["telegram receives messages again."]
    hear(conn, NOW + 7 * MINUTE)
    assert len(told(conn)) == 2


def test_an_event_does_not_end_that_some_kinds_are_missing(conn):
    look(conn, Registration(True, OURS, 0, ("callback_query",)), NOW)
    hear(conn, NOW + MINUTE)
    assert [each.code for each in channel_watches.deaf(conn)] == ["kinds_missing"]


def test_an_owner_on_another_platform_is_told_first(conn):
    person(conn, "7", "owner")
    person(conn, "8", "owner", channel="discord")
    make_chat(conn, "7")
    look(conn, Registration(None, None), NOW)
    assert column(conn, "SELECT channel FROM responses") == ["discord"]


def test_the_command_names_the_account_and_our_own_address(conn):
    look(conn, Registration(True, OURS, 0), NOW, channel="discord.games")
    look(conn, Registration(False, None), NOW + 5 * MINUTE, channel="discord.games")
    (found,) = channel_watches.deaf(conn)
    assert channel_watch.command(found) == f"emulator channel discord connect --account games --url {OURS}"


def test_an_owner_is_told_on_another_channel_that_a_token_is_refused(conn):
    person(conn, "7", "owner")
    make_chat(conn, "7")
    with transaction(conn):
        assert channel_watch.tell_paused(conn, "telegram", "Unauthorized", now_ms=NOW) is None
        assert channel_watch.tell_paused(conn, "discord", "Unauthorized", now_ms=NOW) is not None
    (text,) = told(conn)
    assert text.replace("\\", "").startswith("discord is paused, and its answers wait: Unauthorized. Set the")


def test_what_the_platform_says_is_cut_and_told_as_text(conn):
    person(conn, "7", "owner")
    make_chat(conn, "7")
    error = "**bold** `code`\n" + "x" * 5000
    look(conn, Registration(True, OURS, 3, last_error=error, last_error_at_ms=NOW), NOW)
    (text,) = told(conn)
    assert "**bold**" not in text
    assert len(text) < 600
    assert json.dumps(text).count("\\n") == 0
