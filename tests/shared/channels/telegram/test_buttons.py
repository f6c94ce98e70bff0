"""Buttons, edits and answers to a press, against a function that plays Telegram."""

import httpx
import pytest

from shared.channels.base import Button, Part
from shared.channels.telegram.api_calls import keyboard
from shared.core.errors import (
    NotSent,
    OutcomeUnknown,
    PermanentError,
    PlatformDown,
    RateLimited,
    TokenRefused,
)
from shared.runtime.http_client import NoAnswer, RequestNotSent
from tests.shared.channels.telegram.sending import PART, SENT, Platform, refusal, reply, send

YES, NO = Button("Approve", "7.0"), Button("Refuse", "7.1")
KEYS = {"inline_keyboard": [[{"text": "Approve", "callback_data": "7.0"}, {"text": "Refuse", "callback_data": "7.1"}]]}
PRESS = {"callback_id": "4711", "message_id": "55"}
OLD = "Bad Request: query is too old and response timeout expired or query ID is invalid"


def test_buttons_are_sent_with_the_message(telegram):
    platform = Platform(SENT)
    send(telegram, platform, reply(buttons=(YES, NO)))
    assert platform.bodies[0]["reply_markup"] == KEYS


def test_long_labels_have_their_own_rows_and_are_cut():
    buttons = (Button("the research assistant", "1.0"), Button("😀" * 60, "1.1"), Button(" \n", "1.2"))
    first, second, third = (row for row in keyboard(buttons))
    assert first == [{"text": "the research assistant", "callback_data": "1.0"}]
    assert second[0]["text"] == "😀" * 39 + "…"
    assert third[0]["text"] == "…"


def test_an_edit_changes_the_message_and_removes_its_buttons(telegram):
    platform = Platform(httpx.Response(200, json={"ok": True, "result": {"message_id": 55}}))
    assert send(telegram, platform, reply(edits="55", thread_id="17")) == "55"
    assert platform.methods == ["editMessageText"]
    assert platform.bodies == [
        {
            "chat_id": 5000000001,
            "message_id": 55,
            "text": PART.html,
            "parse_mode": "HTML",
            "link_preview_options": {"is_disabled": True},
        }
    ]


def test_an_edit_that_changes_nothing_succeeds(telegram):
    platform = Platform(refusal("Bad Request: message is not modified: specified new message content"))
    assert send(telegram, platform, reply(edits="55")) == "55"


@pytest.mark.parametrize("why", ["message to edit not found", "message can't be edited", "MESSAGE_ID_INVALID"])
def test_a_message_that_cannot_be_edited_is_sent_as_a_new_one(telegram, why):
    platform = Platform(refusal(f"Bad Request: {why}"), SENT)
    assert send(telegram, platform, reply(edits="55", buttons=(YES, NO))) == "77"
    assert platform.methods == ["editMessageText", "sendMessage"]
    assert "message_id" not in platform.bodies[1]
    assert platform.bodies[1]["reply_markup"] == KEYS


def test_an_edit_without_an_answer_is_retried(telegram):
    """A repeated edit makes no second message."""
    with pytest.raises(OutcomeUnknown) as caught:
        send(telegram, Platform(NoAnswer("slow")), reply(edits="55"))
    assert caught.value.is_repeatable


@pytest.mark.parametrize(("edits", "may_have_arrived"), [("55", False), (None, True)])
def test_a_server_error_is_an_outage_in_which_a_new_message_may_have_arrived(telegram, edits, may_have_arrived):
    with pytest.raises(PlatformDown) as caught:
        send(telegram, Platform(httpx.Response(503, text="x")), reply(edits=edits))
    assert (caught.value.code, caught.value.may_have_arrived) == ("server_error", may_have_arrived)


def test_a_press_is_acknowledged_before_its_message_changes(telegram):
    platform = Platform(httpx.Response(200, json={"ok": True, "result": True}), SENT)
    assert send(telegram, platform, reply(edits="55", click=PRESS)) == "77"
    assert platform.methods == ["answerCallbackQuery", "editMessageText"]
    assert platform.bodies[0] == {"callback_query_id": "4711"}


def test_only_the_person_who_pressed_sees_the_answer_to_a_press(telegram):
    platform = Platform(httpx.Response(200, json={"ok": True, "result": True}))
    assert send(telegram, platform, reply(click=PRESS)) is None
    assert platform.methods == ["answerCallbackQuery"]
    assert platform.bodies == [{"callback_query_id": "4711", "text": PART.text, "show_alert": True}]


@pytest.mark.parametrize("answer", [refusal(OLD), NoAnswer("slow"), RequestNotSent("no route")])
def test_an_expired_press_is_answered_with_a_message(telegram, answer):
    platform = Platform(answer, SENT)
    assert send(telegram, platform, reply(click=PRESS)) == "77"
    assert platform.methods == ["answerCallbackQuery", "sendMessage"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(OLD), PermanentError),
        (refusal("Unauthorized", 401), TokenRefused),
        (refusal("Too Many Requests", 429, retry_after=3), RateLimited),
        (NoAnswer("slow"), OutcomeUnknown),
        (RequestNotSent("no route"), NotSent),
    ],
)
def test_in_a_group_the_answer_to_a_press_is_an_alert_or_fails(telegram, answer, error):
    """A message would be read by everybody in the group."""
    platform = Platform(answer, SENT)
    with pytest.raises(error) as caught:
        send(telegram, platform, reply(click=PRESS, platform_id="-100"))
    assert type(caught.value) is error
    assert platform.methods == ["answerCallbackQuery"]


def test_in_a_group_an_answer_to_a_press_that_no_alert_holds_fails(telegram):
    platform = Platform(SENT)
    with pytest.raises(PermanentError, match="200 characters"):
        send(telegram, platform, reply(click=PRESS, platform_id="-100"), Part("x" * 201))
    assert platform.bodies == []


def test_an_answer_too_long_for_an_alert_is_a_message(telegram):
    platform = Platform(httpx.Response(200, json={"ok": True, "result": True}), SENT)
    long = Part("😀" * 101)
    assert send(telegram, platform, reply(click=PRESS), long) == "77"
    assert platform.bodies[0] == {"callback_query_id": "4711"}
    assert platform.bodies[1]["text"] == long.text
