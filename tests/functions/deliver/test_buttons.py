"""Buttons, edits and answers to a press; chats that must be opened first, and inactive chats."""

import asyncio
import json
import time

import httpx
import pytest

from shared.channels import registry
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats
from shared.queue import deliveries
from shared.queue.delivery_verdicts import DeliveryPolicy
from tests.functions.deliver.sending import LONG, Alive, Platform, hang, refuse, sent, service_of, silent, step, worked
from tests.support import NOW, answer, column, make_chat, row

ANA = "80000000000000001"
BUTTONS = [["Approve", "7.0"], ["Refuse", "7.1"]]
PRESS = {"callback_id": "4711", "message_id": "55"}


def paths(platform):
    return [path.rpartition("/")[2] for _, path, _ in platform.requests]


def test_buttons_stand_under_the_last_part(conn):
    answer(conn, LONG, content={"buttons": BUTTONS})
    first, last = (body for _, _, body in step(Platform()).requests)
    assert "reply_markup" not in first
    assert [key["callback_data"] for key in last["reply_markup"]["inline_keyboard"][0]] == ["7.0", "7.1"]


def test_an_edit_of_our_own_response_changes_its_last_part(conn):
    card = answer(conn, LONG, content={"buttons": BUTTONS})
    answer(conn, "Approved by Ana", content={"edits": card})
    platform = step(Platform(), 2)
    assert paths(platform) == ["sendMessage", "sendMessage", "editMessageText"]
    assert platform.requests[2][2]["message_id"] == 9002
    assert "reply_markup" not in platform.requests[2][2]


def test_an_edit_waits_for_the_card_that_it_changes(conn, monkeypatch):
    """The approval is decided before its card was sent: both go to one chat, so the card is first."""
    monkeypatch.setenv("POSTROOM_RETRY_BASE_MS", "1")
    card = answer(conn, "May Ana?", content={"buttons": BUTTONS})
    answer(conn, "Expired", content={"edits": card})
    platform = step(Alive(silent, sent), 4)
    assert paths(platform) == ["sendMessage", "sendMessage", "editMessageText"]
    assert platform.requests[2][2]["message_id"] == 9002


@pytest.mark.parametrize("named", ["55", 4711])
def test_a_pressed_card_is_changed_by_its_own_id_and_without_one_by_the_press(conn, named):
    """The card may be pruned; the press names its message."""
    answer(conn, "Approved", content={"edits": named, "click": PRESS})
    platform = step(Platform())
    assert paths(platform) == ["answerCallbackQuery", "editMessageText"]
    assert platform.requests[1][2]["message_id"] == 55


def test_an_edit_of_an_unknown_message_is_sent_as_a_new_one(conn):
    answer(conn, "Expired", content={"edits": 4711})
    assert paths(step(Platform())) == ["sendMessage"]


def test_a_long_edit_continues_in_new_messages(conn):
    answer(conn, LONG, content={"edits": "55", "click": PRESS, "buttons": BUTTONS})
    platform = step(Platform())
    assert paths(platform) == ["answerCallbackQuery", "editMessageText", "sendMessage"]
    assert ["reply_markup" in body for _, _, body in platform.requests] == [False, False, True]


def test_an_answer_to_a_press_goes_to_the_person_who_pressed(conn):
    answer(conn, "Only Ana may decide this.", content={"click": PRESS})
    ((_, _, body),) = step(Platform()).requests
    assert body == {"callback_query_id": "4711", "text": "Only Ana may decide this.", "show_alert": True}
    assert row(conn, "responses")["status"] == "acked"


def test_a_press_at_discord_is_answered_with_its_own_token(conn):
    press = {"sealed_token": registry.get("discord").seal("press-token"), "bot_is_there": True, "message_id": "55"}
    content = {"click": press, "asked_at": int(time.time() * 1000)}
    answer(conn, "Approved", channel="discord", chat="400", content={**content, "edits": "55"})
    answer(conn, "Already approved.", channel="discord", chat="400", content=content)
    edit, said = step(Platform(), 2).requests
    assert edit[:2] == ("PATCH", "/api/v10/webhooks/1290000000000000001/press-token/messages/@original")
    assert edit[2]["components"] == []
    assert said[:2] == ("POST", "/api/v10/webhooks/1290000000000000001/press-token")
    assert said[2]["flags"] & 64


@pytest.mark.parametrize("buttons", [[["only a label"]], "text"])
def test_unreadable_buttons_make_the_response_dead(conn, buttons):
    answer(conn, content={"buttons": buttons})
    assert step(Platform()).requests == []
    assert row(conn, "responses")["status"] == "dead"


# -- chats that are not open yet --------------------------------------------------------------------------------------


def direct(conn, text="hi"):
    """A response to Ana, whose direct chat is not known yet."""
    with transaction(conn):
        chats.ensure(conn, "discord", f"user/{ANA}", is_group=False, opens_for=ANA, now_ms=NOW)
    return answer(conn, text, chat=f"user/{ANA}", channel="discord")


def opens(_):
    return httpx.Response(200, json={"id": "400", "type": 1})


def test_a_direct_chat_is_opened_once_and_then_used(conn):
    direct(conn, "one")
    direct(conn, "two")
    platform = step(Platform(opens, sent), 4)
    assert [path for _, path, _ in platform.requests] == [
        "/api/v10/users/@me/channels",
        "/api/v10/channels/400/messages",
        "/api/v10/channels/400/messages",
    ]
    assert platform.requests[0][2] == {"recipient_id": ANA}
    assert platform.texts[1:] == ["one", "two"]
    assert column(conn, "SELECT retry_count FROM responses") == [0, 0]
    chat = row(conn, "chats")
    assert (chat["platform_id"], chat["opens_for"]) == ("400", None)


def test_a_response_queues_behind_others_when_the_opened_chat_was_known(conn):
    answer(conn, "first", chat="400", channel="discord")
    direct(conn, "second")
    known = make_chat(conn, "400", "discord")
    platform = Platform(opens, sent)

    async def go():
        service = service_of(platform)
        service._chats.add(known)  # a send to it is running
        await worked(service)
        service._chats.discard(known)
        await worked(service)
        await worked(service)
        await service.close()

    asyncio.run(go())
    assert platform.texts == [None, "first", "second"]
    assert column(conn, "SELECT DISTINCT chat_id FROM responses") == [known]


@pytest.mark.parametrize(
    ("answered", "status", "requests"),
    [
        (refuse(403, code=50007, message="Cannot send messages to this user"), "dead", 1),
        (silent, "dead", 5),
        (refuse(429, retry_after=60), "pending", 1),
    ],
)
def test_a_chat_that_cannot_be_opened_fails_as_a_send_does(conn, monkeypatch, answered, status, requests):
    monkeypatch.setenv("POSTROOM_RETRY_CAP_MS", "2")
    direct(conn)
    platform = step(Alive(answered), 8)
    found = row(conn, "responses")
    assert (found["status"], len(platform.requests)) == (status, requests)
    assert found["last_error"].startswith("Discord")
    assert column(conn, "SELECT type FROM events WHERE type = 'response_outcome_unknown'") == []


def test_a_chat_that_takes_too_long_to_open_is_tried_again(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_LEASE_MS", "1000")
    direct(conn)
    step(Platform(hang))
    found = row(conn, "responses")
    assert (found["status"], found["last_error"]) == ("pending", "the direct chat was not opened within 0.6 s")


def test_a_crash_while_a_chat_is_opened_has_a_known_outcome(conn):
    """The policy for unknown outcomes does not apply: opening a chat sends nothing."""
    direct(conn)

    async def crash():
        service = service_of(Platform(hang))
        await service.claim_and_start()
        await asyncio.sleep(0.01)
        await service.close()

    asyncio.run(crash())
    policy = DeliveryPolicy(max_attempts=5, base_ms=1, cap_ms=1, unknown_sends="hold", jitter=0.0)
    with transaction(conn):
        assert deliveries.rescue(conn, "discord", policy, now_ms=NOW, everything=True) == 1
        rows(conn, "UPDATE responses SET deliver_after = NULL")
    assert row(conn, "responses")["status"] == "pending"
    assert step(Platform(opens, sent), 2).texts == [None, "hi"]


# -- chats that are gone ----------------------------------------------------------------------------------------------


def test_nothing_is_sent_to_an_inactive_chat(conn):
    answer(conn, "one", chat="1")
    answer(conn, "two", chat="1")
    answer(conn, "other", chat="2")
    with transaction(conn):
        chats.set_status(conn, "telegram", "1", "inactive", now_ms=NOW)
    platform = step(Platform(), 3)
    assert platform.texts == ["other"]
    assert column(conn, "SELECT status FROM responses ORDER BY id") == ["dead", "dead", "acked"]
    reason = row(conn, "responses", 1)["last_error"]
    assert reason.startswith("the chat is inactive: it was retired or set inactive, or the bot was blocked")
    assert json.loads(column(conn, "SELECT data FROM events WHERE type = 'response_dead'")[0])["retry_count"] == 1
