"""TinyAGI's heartbeat of an agent is a schedule."""

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims
from shared.queue import turns
from shared.queue.turns import TurnReply
from tests.api_client import ask, get, post
from tests.support import column, make_agent

PATH = "/api/agents/coder/heartbeat"
HOURLY = {"content": "anything new?", "enabled": True, "interval": 3600}


@pytest.fixture(autouse=True)
def coder(conn):
    make_agent(conn, "coder", timezone="Europe/Zurich")


def put(serving, **body):
    reply = ask(serving, "PUT", PATH, body)
    assert reply.status_code == 200, reply.text
    assert reply.json() == {"ok": True, **get(serving, PATH).json()}
    return reply.json()


def test_without_a_heartbeat_it_is_off(serving, conn):
    assert get(serving, PATH).json() == {"content": "", "path": "", "enabled": False}
    put(serving, enabled=False)
    assert get(serving, "/api/schedules").json() == []
    assert get(serving, "/api/status").json()["heartbeat"] == {"running": False, "interval": 0, "lastSent": {}}


def test_a_heartbeat_is_a_recurring_task(serving, conn):
    assert put(serving, **HOURLY) == {"ok": True, "path": "", **HOURLY}
    assert rows(conn, "SELECT agent, kind, channel, sender, message, recurrence, timezone, status FROM messages") == [
        ("coder", "task", "heartbeat", "System", "anything new?", "0 * * * *", "Europe/Zurich", "pending")
    ]
    (schedule,) = get(serving, "/api/schedules").json()
    assert schedule["wake"] == "news"
    assert (schedule["label"], schedule["cron"], schedule["enabled"]) == ("heartbeat of coder", "0 * * * *", True)
    assert get(serving, "/api/status").json()["heartbeat"] == {"running": True, "interval": 3600, "lastSent": {}}


def test_a_change_keeps_what_it_does_not_name(serving, conn):
    put(serving, **HOURLY)
    (series,) = column(conn, "SELECT DISTINCT series_id FROM messages")
    assert put(serving, interval=1800) == {"ok": True, "path": "", **HOURLY, "interval": 1800}
    assert put(serving, enabled=False)["enabled"] is False
    assert put(serving, content="still there?")["content"] == "still there?"
    assert put(serving, enabled=True)["enabled"] is True
    assert put(serving, enabled=True) == {"ok": True, "path": "", **HOURLY, "content": "still there?", "interval": 1800}
    assert column(conn, "SELECT DISTINCT series_id FROM messages") == [series]


def test_a_question_without_a_switch_is_kept_for_later(serving, conn):
    assert put(serving, content="anything new?") == {
        **{"ok": True, "path": "", "content": "anything new?", "enabled": False, "interval": 3600}
    }
    assert put(serving, enabled=True)["content"] == "anything new?"


def test_an_empty_question_is_the_usual_one(serving, conn):
    usual = put(serving, enabled=True)["content"]
    assert "do now" in usual
    assert put(serving, content="x")["content"] == "x"
    assert put(serving, content="")["content"] == usual


INTERVALS = {1: 60, 60: 60, 61: 120, 420: 600, 1800: 1800, 1801: 3600, 5400: 7200, 36_000: 43_200, 86_400: 86_400}


@pytest.mark.parametrize(("given", "kept"), INTERVALS.items())
def test_an_interval_is_the_next_longer_one_of_cron(serving, conn, given, kept):
    assert put(serving, enabled=True, interval=given)["interval"] == kept


@pytest.mark.parametrize("interval", [0, -1, 86_401, "often"])
def test_an_interval_that_cron_can_not_say_is_refused(serving, conn, interval):
    reply = ask(serving, "PUT", PATH, {"enabled": True, "interval": interval})
    assert reply.status_code == 400
    assert "interval: a number of seconds" in reply.json()["error"]
    assert column(conn, "SELECT count(*) FROM messages") == [0]


def test_the_status_says_when_each_agent_was_asked_last(serving, conn):
    put(serving, **HOURLY)
    ((due, session),) = rows(conn, "SELECT scheduled_at, session_id FROM messages")
    with transaction(conn):
        claim = claims.claim(conn, "coder", session, token="t", now_ms=due + 5, lease_ms=9, limit=10)
        turns.settle(conn, claim, [TurnReply("nothing", claim.asked[0])], None, now_ms=due + 6)
    assert get(serving, "/api/status").json()["heartbeat"]["lastSent"] == {"coder": due + 5}
    assert get(serving, PATH).json()["enabled"] is True, "the next one is planned"


def test_a_deleted_schedule_is_no_heartbeat_any_more(serving, conn):
    put(serving, **HOURLY)
    (schedule,) = get(serving, "/api/schedules").json()
    assert ask(serving, "DELETE", f"/api/schedules/{schedule['id']}").status_code == 200
    assert get(serving, PATH).json()["enabled"] is False
    assert put(serving, enabled=True)["enabled"] is True


def test_another_schedule_of_the_agent_is_no_heartbeat(serving, conn):
    made = post(serving, {"agentId": "coder", "message": "tidy up", "cron": "0 9 * * *"}, "/api/schedules")
    assert made.status_code == 200
    assert get(serving, PATH).json()["enabled"] is False
