import pytest

from shared.core.row_settings import camel
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, responses
from shared.db.queue.schedules.settings import SETTINGS
from shared.queue import deliveries, session_reset, turns
from shared.queue.turns import TurnReply
from tests.api_client import ask, call, get, post
from tests.approval_requests import person
from tests.support import LEASE, NOW, column, dump, make_agent, make_chat, take, wire

DAILY = {"agentId": "coder", "message": "tidy up", "cron": "0 9 * * *", "label": "daily", "timezone": "Europe/Zurich"}
KEYS = {
    *("state", "reason", "until"),
    "id",
    "kind",
    "label",
    "cron",
    "agentId",
    "message",
    "channel",
    "sender",
    "enabled",
    "createdAt",
    "timezone",
    "nextAt",
    "session",
    "sessionId",
    *map(camel, SETTINGS),
}


@pytest.fixture
def coder(conn):
    make_agent(conn, "coder")
    return conn


def make(serving, **fields):
    reply = post(serving, {**DAILY, **fields}, "/api/schedules")
    assert reply.status_code == 200, reply.text
    return reply.json()["schedule"]


def test_a_schedule_is_a_recurring_message(serving, coder):
    schedule = make(serving)
    assert schedule.keys() == KEYS
    assert {**DAILY, "channel": "schedule", "sender": "Scheduler", "enabled": True}.items() <= schedule.items()
    found = rows(coder, "SELECT agent, kind, recurrence, timezone, series_id, process_after, id_prefix FROM messages")
    assert found == [("coder", "task", "0 9 * * *", "Europe/Zurich", schedule["id"], schedule["nextAt"], "task")]


def test_a_schedule_may_run_once(serving, coder):
    schedule = make(serving, cron=None, runAt="2031-01-31T09:00:00Z")
    assert (schedule["cron"], schedule["runAt"], schedule["nextAt"]) == (
        *("", "2031-01-31T09:00:00.000Z", 1_927_616_400_000),
    )


def test_an_instant_without_an_offset_is_in_the_zone_of_the_schedule(serving, coder):
    schedule = make(serving, cron="", runAt="2031-01-31T09:00:00")
    assert schedule["runAt"] == "2031-01-31T08:00:00.000Z"


def test_what_a_schedule_does_about_missed_runs_is_chosen_and_can_change(serving, coder):
    made = make(serving, misfire="skip", graceMs=600_000)
    assert (made["misfire"], made["graceMs"]) == ("skip", 600_000)
    (changed,) = call(serving, ("PUT", f"/api/schedules/{made['id']}", {"json": {"graceMs": None}}))
    changed = changed.json()["schedule"]
    assert (changed["misfire"], changed["graceMs"]) == ("skip", None)
    assert rows(coder, "SELECT misfire, grace_ms FROM messages") == [("skip", None)]


def test_the_history_of_a_schedule_is_told_by_its_label_and_after_its_end_by_its_id(serving, coder):
    made = make(serving)
    with transaction(coder):
        rows(coder, "UPDATE messages SET process_after = :at, scheduled_at = :at", {"at": NOW})
    (session,) = column(coder, "SELECT session_id FROM messages")
    with transaction(coder):
        claim = claims.claim(coder, "coder", session, token="turn_a", now_ms=NOW, lease_ms=LEASE, limit=1)
        turns.settle(coder, claim, [TurnReply("tidied", claim.asked[0])], None, now_ms=NOW + 14_000)
    (told,) = get(serving, "/api/schedules/daily/runs").json()
    assert (told["outcome"], told["words"]) == ("answered", "ran 09:00:00, 14 s, said: tidied")
    call(serving, ("DELETE", "/api/schedules/daily", {}))
    assert get(serving, f"/api/schedules/{made['id']}/runs").json() == [told]
    assert get(serving, "/api/schedules/daily/runs").status_code == 404


def test_a_schedule_may_have_a_session_of_its_own_which_goes_on_from_run_to_run(serving, coder):
    chat = make_chat(coder, "100")
    wire(coder, chat, "coder")
    beside = make(serving, chatId=chat, label="beside")
    own = make(serving, chatId=chat, session="own")
    assert (beside["session"], own["session"]) == ("chat", "own")
    assert beside["sessionId"] != own["sessionId"]
    key = "SELECT chat_id, series_id FROM sessions WHERE session_id = :id"
    assert rows(coder, key, {"id": own["sessionId"]}) == [(chat, own["id"])]
    assert rows(coder, key, {"id": beside["sessionId"]}) == [(chat, None)]
    (session,) = column(coder, "SELECT session_id FROM messages WHERE series_id = :id", id=own["id"])
    rows(coder, "UPDATE messages SET process_after = :at, scheduled_at = :at", {"at": NOW})
    with transaction(coder):
        session_reset.reset(coder, session, now_ms=NOW)
        claim = claims.claim(coder, "coder", session, token="turn_a", now_ms=NOW, lease_ms=LEASE, limit=1)
        turns.settle(coder, claim, [TurnReply("tidied", claim.asked[0])], None, now_ms=NOW + 1)
    assert column(coder, "SELECT chat_id FROM responses") == [chat]
    (after,) = [each for each in get(serving, "/api/schedules").json() if each["id"] == own["id"]]
    assert after["session"] == "own"
    assert after["sessionId"] not in (own["sessionId"], beside["sessionId"])
    (refused,) = call(serving, ("PUT", f"/api/schedules/{own['id']}", {"json": {"session": "chat"}}))
    assert "session can't change" in refused.text


def test_a_reminder_may_be_too_late_as_well(serving, coder):
    body = {"channel": "telegram", "sender": "Ana", "message": "now", "recurrence": "0 9 * * *", "graceMs": 5}
    assert post(serving, {**body, "misfire": "catch_up"}, "/api/responses").status_code == 200
    assert rows(coder, "SELECT misfire, grace_ms FROM responses") == [("catch_up", 5)]


REFUSED = {
    "a rule that does not exist": ({"misfire": "both"}, 400, "misfire: "),
    "a grace below nothing": ({"graceMs": -1}, 400, "graceMs: "),
    "a grace without its unit": ({"grace": 5}, 400, "grace"),
    "neither": ({"cron": None}, 400, "either cron or runAt is required"),
    "both": ({"runAt": "2031-01-31T09:00:00Z"}, 400, "either cron or runAt is required"),
    "six fields": ({"cron": "0 0 9 * * *"}, 400, "five fields"),
    "no date": ({"cron": None, "runAt": "tomorrow"}, 400, "runAt 'tomorrow' is not an ISO 8601 instant"),
    "the past": ({"cron": None, "runAt": "2001-01-31T09:00:00Z"}, 400, "is in the past, or after the year 2099"),
    "after 2099": (
        {"cron": None, "runAt": "9999-01-31T09:00:00Z"},
        400,
        "is in the past, or after the year 2099",
    ),
    "an unknown zone": ({"timezone": "Mars"}, 400, "time zone 'Mars'"),
    "an unknown zone, once": ({"timezone": "Mars", "cron": None, "runAt": "2031-01-31T09:00:00"}, 400, "'Mars'"),
    "an unknown agent": ({"agentId": "nobody"}, 404, "no agent 'nobody'"),
    "no agent": ({"agentId": ""}, 400, "agentId and message are required"),
    "no message": ({"message": ""}, 400, "agentId and message are required"),
    "a channel that is a path": ({"channel": "../etc"}, 400, "channel: "),
}


@pytest.mark.parametrize(("fields", "status", "sentence"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_schedule_is_refused(serving, coder, fields, status, sentence):
    before = dump(coder)
    reply = post(serving, {**DAILY, **fields}, "/api/schedules")
    assert (reply.status_code, sentence in reply.json()["error"]) == (status, True)
    assert dump(coder) == before


def test_a_label_belongs_to_one_schedule(serving, coder):
    make(serving)
    assert "exists already" in post(serving, DAILY, "/api/schedules").json()["error"]
    other = make(serving, label="other")
    reply = ask(serving, "PUT", f"/api/schedules/{other['id']}", {"label": "daily"})
    assert (reply.status_code, "exists already" in reply.json()["error"]) == (400, True)


def test_schedules_are_listed_soonest_first_and_by_agent(serving, coder):
    make(serving, agentId="assistant", label="later", cron=None, runAt="2031-01-31T09:00:00Z")
    make(serving)
    assert [each["label"] for each in get(serving, "/api/schedules").json()] == ["daily", "later"]
    assert [each["label"] for each in get(serving, "/api/schedules?agent=coder").json()] == ["daily"]
    assert get(serving, "/api/schedules?agent=nobody").json() == []


def test_a_change_of_a_schedule_leaves_the_other_fields_and_the_id(serving, coder):
    schedule = make(serving)
    path = f"/api/schedules/{schedule['id']}"
    changed = ask(serving, "PUT", path, {"message": "tidy all", "cron": "30 10 * * *", "label": "mornings"}).json()
    assert changed["schedule"] == {
        **{**schedule, "message": "tidy all", "cron": "30 10 * * *", "label": "mornings"},
        "nextAt": changed["schedule"]["nextAt"],
        "until": changed["schedule"]["nextAt"],
    }
    assert get(serving, "/api/schedules").json() == [changed["schedule"]]
    assert column(coder, "SELECT count(*) FROM messages") == [1]


def test_a_schedule_can_be_sent_back_unchanged(serving, coder):
    schedule = make(serving)
    reply = ask(serving, "PUT", f"/api/schedules/{schedule['id']}", {**schedule, "message": "tidy all"})
    assert reply.json()["schedule"] == {**schedule, "message": "tidy all"}


@pytest.mark.parametrize("fixed", [{"agentId": "assistant"}, {"channel": "telegram"}, {"sender": "Bo"}])
def test_agent_channel_and_sender_of_a_schedule_do_not_change(serving, coder, fixed):
    schedule = make(serving)
    reply = ask(serving, "PUT", f"/api/schedules/{schedule['id']}", fixed)
    assert (reply.status_code, "can't change" in reply.json()["error"]) == (400, True)


def test_a_schedule_is_paused_and_resumed(serving, coder):
    schedule = make(serving, enabled=False)
    assert not schedule["enabled"]
    path = f"/api/schedules/{schedule['id']}"
    replies = call(serving, *(("PUT", path, {"json": {"enabled": on}}) for on in (False, True, True, False)))
    assert [reply.json()["schedule"]["enabled"] for reply in replies] == [False, True, True, False]
    assert column(coder, "SELECT status FROM messages") == ["paused"]


@pytest.mark.parametrize("by", ["id", "label"])
def test_a_schedule_is_deleted_by_id_or_label(serving, coder, by):
    schedule = make(serving)
    paths = [f"/api/schedules/{schedule[by]}"] * 2
    assert [reply.status_code for reply in call(serving, *(("DELETE", path, {}) for path in paths))] == [200, 404]
    assert get(serving, "/api/schedules").json() == []
    assert column(coder, "SELECT status FROM messages") == ["cancelled"]


def test_a_schedule_keeps_its_id_from_run_to_run(serving, coder):
    schedule = make(serving, senderId="100")
    due = schedule["nextAt"]
    rows(coder, "UPDATE chats SET channel = 'telegram'")
    claim = take(coder, agent="coder", chat="100", now_ms=due)
    with transaction(coder):
        turns.settle(coder, claim, [TurnReply("done", claim.asked[0])], None, now_ms=max(due, NOW))
    (following,) = get(serving, "/api/schedules").json()
    assert (following["id"], following["nextAt"] > due) == (schedule["id"], True)


# -- who gets the answer


@pytest.fixture
def wired(coder):
    """Chat 1, a group in which coder answers."""
    wire(coder, make_chat(coder, "-100", is_group=True), "coder")
    return coder


def answer(conn, *, chat):
    """One turn of coder in the session of the chat; the place of its response."""
    claim = take(conn, agent="coder", chat=chat, now_ms=NOW + 10**12)
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply("done", claim.asked[0])], None, now_ms=NOW + 10**12)
    return rows(conn, "SELECT channel, chat_id, platform_id, message FROM responses")


def test_the_answer_of_a_schedule_reaches_the_chat_that_it_names(serving, wired):
    schedule = make(serving, chatId=1)
    assert schedule["chatId"] == 1
    assert get(serving, "/api/schedules").json() == [schedule]
    assert answer(wired, chat="-100") == [("telegram", 1, "-100", "done")]


def test_the_answer_of_a_schedule_reaches_the_direct_chat_of_the_user_that_it_names(serving, coder):
    user = person(coder, "5")
    chat = make_chat(coder, "5")
    wire(coder, chat, "coder")
    assert make(serving, userId=user.id)["chatId"] == chat
    assert answer(coder, chat="5") == [("telegram", chat, "5", "done")]


def test_a_schedule_runs_in_the_session_that_the_agent_shares(serving, coder):
    wire(coder, make_chat(coder), "coder", session_mode="agent-shared")
    make(serving, chatId=1)
    assert rows(coder, "SELECT s.chat_id, m.chat_id FROM messages m JOIN sessions s ON s.id = m.session_id") == [
        (None, 1)
    ]


NOWHERE = {
    "no such chat": ({"chatId": 99}, 404, "there is no chat 99"),
    "no such user": ({"userId": 99}, 404, "there is no user 99"),
    "no such agent": ({"chatId": 1, "agentId": "nobody"}, 404, "no agent 'nobody'"),
    "a chat where the agent may not send": ({"chatId": 2}, 409, "agent coder may not send to chat 2"),
    "a user whom the agent may not write to": ({"userId": 1}, 409, "agent coder may not send to chat"),
    "a chat that the bot has left": ({"chatId": 3}, 409, "chat 3 is inactive"),
    "a chat of no platform": ({"chatId": 4}, 409, "answers in chat 4 are not sent: 'api' is none of discord, "),
    "two": ({"chatId": 1, "userId": 1}, 400, "one chat gets the answer: give only one of chatId,"),
    "a chat and a sender": ({"chatId": 1, "senderId": "5"}, 400, "one chat gets the answer: give only one of chatId,"),
}


@pytest.mark.parametrize(("fields", "status", "sentence"), NOWHERE.values(), ids=NOWHERE)
def test_a_schedule_whose_answer_would_reach_nobody_is_refused(serving, wired, fields, status, sentence):
    person(wired, "5")
    make_chat(wired, "-200", is_group=True)
    wire(wired, make_chat(wired, "-300", is_group=True), "coder")
    wire(wired, make_chat(wired, "7", "api"), "coder")
    rows(wired, "UPDATE chats SET status = 'inactive' WHERE id = 3")
    before = dump(wired)
    reply = post(serving, {**DAILY, **fields}, "/api/schedules")
    assert (reply.status_code, reply.json()["error"][: len(sentence)]) == (status, sentence)
    assert dump(wired) == before


DRINK = {"channel": "telegram", "sender": "Ana", "senderId": "-100", "message": "drink"}


def test_a_response_by_recurrence_is_sent_each_time_without_an_agent(serving, wired):
    reply = post(serving, {**DRINK, "recurrence": "0 9 * * *", "timezone": "Europe/Zurich"}, "/api/responses")
    assert reply.status_code == 200, reply.text
    (made,) = get(serving, "/api/schedules").json()
    assert (made["kind"], made["agentId"], made["cron"], made["timezone"], made["message"]) == (
        *("response", "", "0 9 * * *", "Europe/Zurich", "drink"),
    )
    due_ms = made["nextAt"]
    (row,) = rows(wired, "SELECT id, message_id, deliver_after, status FROM responses")
    assert row[1:] == (reply.json()["messageId"], due_ms, "pending")
    assert responses.heads(wired, "telegram", now_ms=due_ms - 1) == []
    assert responses.heads(wired, "telegram", now_ms=due_ms) == [row[0]]
    with transaction(wired):
        claimed = responses.claim(wired, row[0], token="send_a", now_ms=due_ms, lease_ms=1000)
        deliveries.acknowledge(wired, claimed, ("1",), now_ms=due_ms)
    (following,) = get(serving, "/api/schedules").json()
    assert (following["id"], following["message"]) == (made["id"], "drink")
    assert following["nextAt"] > due_ms
    assert column(wired, "SELECT count(*) FROM messages") == [0], "no agent has anything to do with it"


def test_a_response_for_later_is_paused_changed_and_deleted_like_a_schedule(serving, wired):
    post(serving, {**DRINK, "deliverAfter": 1_927_616_400_000}, "/api/responses")
    (made,) = get(serving, "/api/schedules").json()
    path = f"/api/schedules/{made['id']}"
    assert made["runAt"] == "2031-01-31T09:00:00.000Z"
    assert ask(serving, "PUT", path, {**made, "message": "drink more"}).json()["schedule"]["message"] == "drink more"
    assert ask(serving, "PUT", path, {"enabled": False}).json()["schedule"]["enabled"] is False
    assert column(wired, "SELECT status FROM responses") == ["paused"]
    assert ask(serving, "DELETE", path).status_code == 200
    assert get(serving, "/api/schedules").json() == []
    assert rows(wired, "SELECT status, failure FROM responses") == [("dead", "called_off")]
