"""From rows to alerts in a chat, on a real database."""

import asyncio
from pathlib import Path

import apsw
import pytest
from pydantic import SecretStr

from shared.channels.base import Registration
from shared.conversation.access import channel_watch
from shared.conversation.alerts import alert_looks, standing
from shared.conversation.alerts.alert_looks import AlertLooks
from shared.conversation.alerts.decide import MOST
from shared.core.settings import Settings
from shared.db.alerts import alerts, tellings
from shared.db.engine.connection import rows, transaction
from shared.db.engine.group_commit import Writer
from shared.db.platforms import channel_outages, channel_pauses
from shared.db.platforms.channel_outages import ChannelOutage
from shared.db.spending import budgets
from shared.roster import alert_routes
from tests.support import NOW, answer, column, make_agent, make_chat, put

MINUTE = 60_000
SECRET_TEXT = "my bank code is 4711"
URL = "https://post.example"


@pytest.fixture
def settings(db):
    return Settings(db=db, public_url=URL)


@pytest.fixture
def ops(conn):
    return route(conn, "ops", make_chat(conn, "900"))


def route(conn, name, chat, **changes):
    with transaction(conn):
        return alert_routes.save(conn, name, chat, changes, now_ms=NOW - MINUTE)


def look(conn, settings, now_ms=NOW):
    """One look; what it says is sent at once."""
    found = standing.look(conn, settings, now_ms=now_ms)
    with transaction(conn):
        count = alert_looks.note(conn, found, settings, now_ms=now_ms)
        sent = "UPDATE responses SET status = 'acked', acked_at = :now WHERE platform_id IN ('900', '901')"
        rows(conn, sent, {"now": now_ms})
        return count


def said(conn, chat="900"):
    """The alerts of the chat, as people read them."""
    return [
        text.replace("\\", "") for text in column(conn, f"SELECT message FROM responses WHERE platform_id = '{chat}'")
    ]


def die(conn, **message):
    row = put(conn, SECRET_TEXT, **message)
    dead = "UPDATE messages SET status = 'dead', failure = 'crashed', last_error = :text WHERE id = :id"
    with transaction(conn):
        rows(conn, dead, {"text": f"the program wrote: {SECRET_TEXT}", "id": row})
    return row


def test_a_dead_message_is_told_once_and_its_end_once(conn, ops, settings):
    row = die(conn)
    assert [look(conn, settings, NOW + number) for number in range(3)] == [1, 0, 0]
    with transaction(conn):
        rows(conn, "DELETE FROM messages WHERE id = :id", {"id": row})
    assert [look(conn, settings, NOW + (18 + number) * MINUTE) for number in range(3)] == [0, 1, 0]
    assert said(conn) == [
        "1 message to agent assistant is dead, since 2027-01-15 08:00 (UTC). The agent's program ended with "
        "an error. Nothing is tried again by itself. Retry or discard them: emulator messages list. "
        f"<{URL}/#/queue/dead>",
        "Over since 2027-01-15 08:18 (UTC): 1 message to agent assistant is dead (it lasted 18 min).",
    ]


def test_one_old_dead_message_hides_no_later_one(conn, ops, settings):
    die(conn)
    assert look(conn, settings) == 1
    die(conn, chat="7", now_ms=NOW + 59 * MINUTE)
    assert look(conn, settings, NOW + 59 * MINUTE) == 0
    die(conn, chat="8", now_ms=NOW + 61 * MINUTE)
    assert [look(conn, settings, NOW + minute * MINUTE) for minute in (61, 62)] == [1, 0]
    assert said(conn)[1].startswith(
        "3 messages to agent assistant are dead, since 2027-01-15 08:00 (UTC), and again at 2027-01-15 09:01 (UTC). "
    )


def test_a_thing_that_comes_back_at_once_is_no_news(conn, ops, settings):
    row = die(conn)
    look(conn, settings)
    for now, status in ((NOW + 1, "pending"), (NOW + 2, "dead"), (NOW + 3, "dead")):
        with transaction(conn):
            rows(conn, "UPDATE messages SET status = :status WHERE id = :id", {"status": status, "id": row})
        assert look(conn, settings, now) == 0
    assert column(conn, "SELECT count(*) FROM alerts WHERE over_at IS NULL AND gone_at IS NULL") == [1]


def test_an_alert_holds_no_text_of_people_or_programs(conn, ops, settings):
    die(conn)
    waiting = put(conn, SECRET_TEXT, chat="7")
    failed = "UPDATE messages SET failure = 'error', last_error = :text, process_after = :later WHERE id = :id"
    with transaction(conn):
        rows(conn, failed, {"text": SECRET_TEXT, "later": NOW + 60 * MINUTE, "id": waiting})
    answer(conn, SECRET_TEXT, chat="8")
    assert look(conn, settings, NOW + 11 * MINUTE) == 3
    assert len(said(conn)) == 3
    assert not [text for text in said(conn) if "4711" in text]


def test_a_message_that_waits_too_long_is_stuck_for_the_reason_that_why_gives(conn, ops, settings):
    row = put(conn)
    assert look(conn, settings, NOW + 10 * MINUTE - 1) == 0
    assert look(conn, settings, NOW + 10 * MINUTE) == 1
    (message,) = column(conn, f"SELECT message_id FROM messages WHERE id = {row}")
    assert said(conn) == [
        "Messages to agent assistant wait in 1 conversation, since 2027-01-15 08:00 (UTC). Of the oldest: It is due, "
        "and dispatch takes it within seconds. If it stays due, dispatch does not run. To see why each waits, type "
        f"emulator why {message}. <{URL}/#/m/{message}>"
    ]


@pytest.mark.parametrize(
    "change",
    [
        "process_after = :soon",
        "trigger = 0",
        "status = 'processing', lease = :soon, claimed_by = 'turn_a'",
        "status = 'paused'",
    ],
)
def test_what_waits_as_it_should_is_not_stuck(conn, ops, settings, change):
    row = put(conn)
    with transaction(conn):
        conn.execute(f"UPDATE messages SET {change} WHERE id = {row}", {"soon": NOW + 60 * MINUTE})
    assert look(conn, settings, NOW + 30 * MINUTE) == 0


def test_a_plan_in_the_same_session_hides_no_message_that_is_stuck(conn, ops, settings):
    put(conn, process_after=NOW + 60 * MINUTE)
    put(conn)
    assert look(conn, settings, NOW + 30 * MINUTE) == 1


def test_a_channel_that_hears_nothing_is_told(conn, ops, settings):
    with transaction(conn):
        channel_watch.note(conn, "telegram", Registration(True, None), now_ms=NOW)
    look(conn, settings)
    (text,) = said(conn)
    assert text.startswith("telegram receives nothing, since 2027-01-15 08:00 (UTC). No address is registered")
    assert "To fix it: emulator channel telegram connect." in text


def outage(conn, channel="telegram"):
    with transaction(conn):
        channel_outages.begin(
            conn, ChannelOutage(channel, NOW, "unreachable", "it can't be reached", NOW + MINUTE), now_ms=NOW
        )


def test_a_short_outage_mends_itself_and_is_no_trouble(conn, ops, settings):
    outage(conn)
    look(conn, settings, NOW + 10 * MINUTE - 1)
    assert column(conn, "SELECT count(*) FROM alerts") == [0]
    look(conn, settings, NOW + 10 * MINUTE)
    assert column(conn, "SELECT key FROM alerts") == ["outage telegram"]


def test_an_alert_about_its_own_channel_goes_elsewhere(conn, ops, settings):
    route(conn, "spare", make_chat(conn, "901", "discord"), kinds=["money"])
    with transaction(conn):
        channel_pauses.pause(conn, "telegram", "the token is refused", check_at=NOW + MINUTE, now_ms=NOW)
    look(conn, settings)
    assert said(conn) == []
    (text,) = said(conn, "901")
    assert text.startswith("telegram is paused, and its answers wait")


def test_without_another_route_it_is_said_when_the_channel_works_again(conn, ops, settings):
    outage(conn)
    for now in (NOW, NOW + 10 * MINUTE, NOW + 20 * MINUTE):
        assert look(conn, settings, now) == 0
    assert column(conn, "SELECT kind FROM alerts") == ["deaf"]
    with transaction(conn):
        rows(conn, "DELETE FROM channel_outages")
    assert [look(conn, settings, NOW + minute * MINUTE) for minute in (21, 22, 23)] == [0, 1, 0]
    assert said(conn) == [
        "Over since 2027-01-15 08:21 (UTC): telegram can't send, and its answers wait (it lasted 21 min)."
    ]


def test_a_storm_is_counted(conn, ops, settings):
    for number in range(20):
        make_agent(conn, f"agent-{number}")
        die(conn, agent=f"agent-{number}", chat=str(number))
    assert look(conn, settings) == 5
    assert said(conn)[-1] == f"16 more: 16 dead (problem). <{URL}/#/>"
    assert look(conn, settings, NOW + MINUTE) == 0


def test_a_clock_that_is_set_back_holds_no_alert_back(conn, ops, settings):
    for number in range(MOST):
        make_agent(conn, f"agent-{number}")
        die(conn, agent=f"agent-{number}", chat=str(number))
    assert look(conn, settings) == MOST
    with transaction(conn):
        rows(conn, "DELETE FROM messages WHERE agent = 'agent-0'")
    look(conn, settings, NOW + MINUTE)
    make_agent(conn, "late")
    die(conn, agent="late", chat="late")
    back = NOW - 300 * MINUTE
    assert look(conn, settings, back) == 2
    over, begun = said(conn)[-2:]
    assert over.startswith("Over since 2027-01-15 08:01 (UTC): 1 message to agent agent-0 is dead")
    assert begun.startswith("1 message to agent late is dead")


def test_a_night_is_one_digest(conn, settings):
    route(conn, "ops", make_chat(conn, "900"), quiet_hours="07:30-08:30")
    gone = die(conn)
    look(conn, settings)
    with transaction(conn):
        rows(conn, "DELETE FROM messages WHERE id = :id", {"id": gone})
    make_agent(conn, "coder")
    die(conn, agent="coder", chat="7")
    assert [look(conn, settings, NOW + minute * MINUTE) for minute in (5, 6, 29, 30, 31)] == [0, 0, 0, 1, 0]
    (text,) = said(conn)
    first, begun, over, address = text.split("\n")
    assert (first, address) == ("Digest of 2 alerts:", f"<{URL}/#/>")
    assert begun.startswith("- 1 message to agent coder is dead, since 2027-01-15 08:00 (UTC).")
    assert over.startswith("- Over since 2027-01-15 08:05 (UTC): 1 message to agent assistant is dead")


def test_a_webhook_gets_plain_text(conn, settings):
    settings = settings.model_copy(update={"alert_url": SecretStr("https://x.example"), "alert_secret": SecretStr("x")})
    with transaction(conn):
        webhook = alert_routes.webhook(conn, settings, now_ms=NOW)
        alert_routes.save(conn, "pager", webhook, {}, now_ms=NOW)
    die(conn)
    look(conn, settings)
    (text,) = column(conn, "SELECT message FROM responses WHERE channel = 'alert-webhook'")
    assert text.startswith(
        "1 message to agent assistant is dead, since 2027-01-15 08:00 (UTC). The agent's program ended"
    )
    assert text.endswith(f" {URL}/#/queue/dead")


def test_a_route_that_is_deleted_takes_what_it_was_told_along(conn, ops, settings):
    die(conn)
    look(conn, settings)
    ((alert,),) = rows(conn, "SELECT id FROM alerts")
    assert [each.route for each in tellings.of_alerts(conn, [alert])] == ["ops"]
    with transaction(conn):
        alert_routes.delete(conn, "ops")
    assert tellings.of_alerts(conn, [alert]) == []


def test_without_a_route_nothing_is_looked_at(conn, db, settings):
    die(conn)
    assert run(db, settings) == 0
    assert alerts.standing(conn) == []


def test_with_one_a_look_of_sweep_tells(conn, db, ops, settings):
    die(conn)
    assert run(db, settings) == 1


def test_a_look_that_fails_stops_no_sweep(conn, db, ops, settings):
    nowhere = Settings(db=Path("/nonexistent/p.db"))
    assert run(db, nowhere) == 0


def test_what_stood_when_the_last_route_went_is_told_to_no_later_one(conn, db, ops, settings):
    row = die(conn)
    look(conn, settings)
    with transaction(conn):
        alert_routes.delete(conn, "ops")
    assert run(db, settings) == 0
    assert alerts.standing(conn) == []
    with transaction(conn):
        rows(conn, "DELETE FROM messages WHERE id = :id", {"id": row})
        alert_routes.save(conn, "new", 1, {}, now_ms=NOW + MINUTE)
    assert [look(conn, settings, NOW + minute * MINUTE) for minute in (2, 3, 4)] == [0, 0, 0]


def test_a_look_is_of_one_instant_and_sums_what_is_settled_once(conn, db, ops, settings):
    with transaction(conn):
        budgets.put(conn, "assistant", "month", "tokens", 10, now_ms=NOW)
    seen = []

    def watch(connection):
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda told: seen.append((connection.in_transaction, told["sql"])))

    apsw.connection_hooks.append(watch)
    try:
        run(db, settings, times=2)
    finally:
        apsw.connection_hooks.remove(watch)
    assert len([sql for _, sql in seen if "FROM usage" in sql]) == 3
    assert {within for within, sql in seen if "FROM usage" in sql or "FROM responses" in sql} == {True}


def run(db, settings, times=1):
    async def go():
        writer = Writer(db)
        looks = AlertLooks(settings, writer)
        try:
            return sum([await looks.look(now_ms=NOW) for _ in range(times)])
        finally:
            await looks.close()
            writer.close()

    return asyncio.run(go())


def test_old_alerts_are_pruned(conn, ops, settings):
    row = die(conn)
    look(conn, settings)
    with transaction(conn):
        rows(conn, "DELETE FROM messages WHERE id = :id", {"id": row})
    look(conn, settings, NOW + 1)
    look(conn, settings, NOW + 2)
    look(conn, settings, NOW + 3 + settings.history_retention_ms)
    assert column(conn, "SELECT count(*) FROM alerts") == [0]
    assert column(conn, "SELECT count(*) FROM alert_tellings") == [0]
