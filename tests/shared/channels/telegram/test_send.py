"""``send`` of the Telegram adapter, against a function that plays Telegram."""

import asyncio

import httpx
import pytest

from shared.channels.base import Button, Part, Poll
from shared.channels.telegram.answers import classify
from shared.core.errors import (
    ChatGone,
    ChatMoved,
    NotSent,
    OutcomeUnknown,
    PartTooLong,
    PermanentError,
    PlaceGone,
    PlatformDown,
    PostroomError,
    RateLimited,
    RetryableError,
    TokenRefused,
)
from shared.runtime.http_client import NoAnswer, RequestNotSent
from tests.fake_client import FakeClient
from tests.shared.channels.telegram.sending import PART, SENT, Platform, refusal, reply, send

TOKEN = "7100200300:AAExampleExampleExampleExampleExample"


def test_half_a_character_in_the_answer_does_not_hide_that_the_message_arrived(telegram):
    """Telegram repeats the text in its answer. An answer that can't be read would count as unknown."""
    answer = rb'{"ok": true, "result": {"message_id": 77, "text": "cut \ud83d"}}'
    assert send(telegram, Platform(httpx.Response(200, content=answer))) == "77"


def test_sends_html_without_previews_and_returns_the_id(telegram):
    platform = Platform(SENT)
    assert send(telegram, platform) == "77"
    assert platform.urls == [f"http://127.0.0.1:1/bot{TOKEN}/sendMessage"]
    assert platform.bodies == [
        {
            "chat_id": 5000000001,
            "text": PART.html,
            "parse_mode": "HTML",
            "link_preview_options": {"is_disabled": True},
        }
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"platform_id": "-100"}, {"reply_parameters": {"message_id": 12, "allow_sending_without_reply": True}}),
        ({"platform_id": "-100", "is_first": False}, {}),
        ({"platform_id": "-100", "reply_to": None}, {}),
        ({}, {}),
        ({"thread_id": "17"}, {"message_thread_id": 17}),
        ({"thread_id": "1"}, {}),
        ({"thread_id": "dm:9"}, {"direct_messages_topic_id": 9}),
        (
            {"platform_id": "-100", "context": {"ephemeral_message_id": "5", "receiver_user_id": "6"}},
            {"ephemeral_message_parameters": {"receiver_user_id": 6}},
        ),
    ],
)
def test_the_destination_of_a_part(telegram, changes, expected):
    platform = Platform(SENT)
    send(telegram, platform, reply(**changes))
    (body,) = platform.bodies
    assert {
        name: body[name] for name in body if name not in ("chat_id", "text", "parse_mode", "link_preview_options")
    } == expected


@pytest.mark.parametrize(
    "description",
    [
        "Bad Request: can't parse entities: Unsupported start tag",
        "Bad Request: text is too long",
        "Bad Request: message text is empty",
        "Bad Request: ENTITIES_TOO_LONG",
        "Bad Request: ENTITY_BOUNDS_INVALID",
        "Bad Request: Entity URL 'http://x' is invalid",
    ],
)
def test_refused_markup_is_sent_as_plain_text(telegram, description):
    platform = Platform(refusal(description), SENT)
    assert send(telegram, platform) == "77"
    assert platform.bodies[1]["text"] == PART.text
    assert "parse_mode" not in platform.bodies[1]


def test_a_refused_message_is_retried_without_reply_and_markup_in_its_topic(telegram):
    platform = Platform(
        refusal("Bad Request: message to be replied not found"),
        refusal("Bad Request: can't parse entities"),
        SENT,
    )
    assert send(telegram, platform, reply(platform_id="-100", thread_id="17")) == "77"
    assert set(platform.bodies[2]) == {"chat_id", "text", "link_preview_options", "message_thread_id"}


TOPIC_GONE = ["Bad Request: message thread not found", "Bad Request: TOPIC_CLOSED", "Bad Request: TOPIC_DELETED"]


@pytest.mark.parametrize("changes", [{}, {"buttons": (Button("Yes", "7.0"),)}, {"reply_to": None}])
@pytest.mark.parametrize("chat", ["-100", "5000000001"], ids=["group", "private chat"])
@pytest.mark.parametrize("description", TOPIC_GONE)
def test_an_answer_whose_topic_is_closed_or_gone_fails_and_goes_nowhere_else(telegram, description, chat, changes):
    platform = Platform(refusal(description), SENT)
    with pytest.raises(PlaceGone, match="goes nowhere else"):
        send(telegram, platform, reply(platform_id=chat, thread_id="17", **changes))
    assert [body["message_thread_id"] for body in platform.bodies] == [17]


def test_a_new_message_in_place_of_an_edited_one_stays_in_its_topic(telegram):
    refusals = refusal("Bad Request: message to edit not found"), refusal("Bad Request: TOPIC_CLOSED")
    platform = Platform(*refusals, SENT)
    with pytest.raises(PlaceGone, match="goes nowhere else"):
        send(telegram, platform, reply(platform_id="-100", thread_id="17", edits="55"))
    assert platform.bodies[1]["message_thread_id"] == 17
    assert len(platform.bodies) == 2


def test_a_message_that_is_refused_in_its_simpler_form_fails(telegram):
    platform = Platform(refusal("Bad Request: can't parse entities"))
    with pytest.raises(PermanentError, match="can't parse entities"):
        send(telegram, platform)
    assert len(platform.bodies) == 2


@pytest.mark.parametrize("code", [400, 403])
def test_a_message_to_a_migrated_group_fails_with_the_new_id(telegram, code):
    """The whole chat moves, not only this message: its row has to know."""
    moved = refusal("Bad Request: group chat was upgraded to a supergroup chat", code, migrate_to_chat_id=-200)
    platform = Platform(moved, SENT)
    with pytest.raises(ChatMoved) as caught:
        send(telegram, platform, reply(platform_id="-100"))
    assert (caught.value.new_platform_id, len(platform.bodies)) == ("-200", 1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal("Forbidden: bot was blocked by the user", 403), ChatGone),
        (refusal("Forbidden: user is deactivated", 403), ChatGone),
        (refusal("Forbidden: bot is not a member of the supergroup chat", 403), ChatGone),
        (refusal("Bad Request: chat not found"), ChatGone),
        (refusal("Forbidden: CHAT_WRITE_FORBIDDEN", 403), PermanentError),
        (refusal("Bad Request: not enough rights to send text messages to the chat"), PermanentError),
        (refusal("Bad Request: message is too long"), PartTooLong),
        (refusal("Bad Request: MESSAGE_TOO_LONG"), PartTooLong),
        (refusal("Request Entity Too Large", 413), PermanentError),
        (refusal("Unauthorized", 401), TokenRefused),
        (refusal("Not Found", 404), TokenRefused),
        (refusal("Conflict", 409), RetryableError),
        (httpx.Response(502, text="<html>Bad Gateway</html>"), PlatformDown),
        (httpx.Response(200, text="<html>"), OutcomeUnknown),
        (httpx.Response(302, headers={"location": "http://x"}), OutcomeUnknown),
        (RequestNotSent("no route"), NotSent),
        (NoAnswer("slow"), OutcomeUnknown),
    ],
)
def test_each_failure_has_its_error_and_no_error_holds_the_token(telegram, answer, error):
    platform = Platform(answer)
    with pytest.raises(error) as caught:
        send(telegram, platform)
    assert type(caught.value) is error
    assert TOKEN not in repr(caught.value)
    assert "127.0.0.1" not in repr(caught.value)
    assert caught.value.__cause__ is None, "a cause would be told with it"
    assert len(platform.bodies) == 1


REPEATED = {
    "the token": TOKEN,
    "the token in a URL": TOKEN.replace(":", "%3A"),
    "the token in small letters of a URL": TOKEN.replace(":", "%3a"),
    "its secret part": TOKEN.partition(":")[2],
}


@pytest.mark.parametrize("blanks", [0, 150, 180])
@pytest.mark.parametrize("repeated", REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize("status", [400, 401, 404, 429, 502])
def test_an_error_that_repeats_the_address_shows_no_part_of_the_token(telegram, status, repeated, blanks):
    """Also where the description is cut off inside the token."""
    description = f"{'x' * blanks} can't find https://api.telegram.org/bot{repeated}/sendMessage"
    with pytest.raises(PostroomError) as caught:
        send(telegram, Platform(refusal(description, status)))
    assert "AAEx" not in str(caught.value)


def test_a_refused_token_names_the_setting(telegram):
    with pytest.raises(TokenRefused, match="TELEGRAM_BOT_TOKEN"):
        send(telegram, Platform(refusal("Unauthorized", 401)))


@pytest.mark.parametrize(
    ("parameters", "wait_ms"), [({"retry_after": 7}, 7000), ({"retry_after": 0}, 1000), ({}, 5000)]
)
def test_the_wait_is_as_long_as_telegram_asks(telegram, parameters, wait_ms):
    with pytest.raises(RateLimited) as caught:
        send(telegram, Platform(refusal("Too Many Requests", 429, **parameters)))
    assert caught.value.retry_after_ms == wait_ms


@pytest.mark.parametrize(
    ("status", "payload", "outcome", "step"),
    [
        (200, SENT, "sent", ""),
        (200, {"ok": True, "result": True}, "sent", ""),
        (400, {"description": "Bad Request: message is not modified: same"}, "sent", ""),
        (400, {"description": "Bad Request: Entity URL 'x' is invalid"}, "give_way", "plain"),
        (400, {"description": "Bad Request: message thread not found"}, "place_gone", ""),
        (400, {"description": "Bad Request: TOPIC_DELETED"}, "place_gone", ""),
        (400, {"description": "Bad Request: BUTTON_DATA_INVALID"}, "permanent", ""),
        (400, {"description": "Bad Request: CHAT_WRITE_FORBIDDEN"}, "permanent", ""),
        (400, {"description": "Bad Request: message to edit not found"}, "give_way", "new_message"),
        (400, {"description": "Bad Request: message can't be edited"}, "give_way", "new_message"),
        (403, {"description": "Forbidden: bot was kicked from the group chat"}, "chat_gone", ""),
        (400, {}, "permanent", ""),
        (500, {"description": "Internal Server Error"}, "down", ""),
        (429, {"parameters": "odd"}, "wait", ""),
    ],
)
def test_classify(status, payload, outcome, step):
    result = classify(status, payload)
    assert (result.outcome, result.step) == (outcome, step)
    assert outcome == "sent" or result.reason


POLL = Poll("Lunch?", ("Pizza", "Noodles"), is_multiple=True, hours=2)


def test_a_poll_is_telegrams_own(telegram):
    platform = Platform(refusal("Bad Request: message to be replied not found"), SENT)
    to = reply(platform_id="-100", thread_id="17", poll=POLL)
    assert send(telegram, platform, to, Part("Lunch?")) == "77"
    assert [url.rpartition("/")[2] for url in platform.urls] == ["sendPoll", "sendPoll"]
    assert platform.bodies[1] == {
        "chat_id": -100,
        "message_thread_id": 17,
        "question": "Lunch?",
        "options": [{"text": "Pizza"}, {"text": "Noodles"}],
        "allows_multiple_answers": True,
        "open_period": 7200,
    }


def test_a_poll_for_one_person_of_a_group_is_not_shown_to_all(telegram):
    platform = Platform(SENT)
    with pytest.raises(PermanentError, match="one person"):
        send(telegram, platform, reply(poll=POLL, context={"receiver_user_id": "5"}))
    assert platform.urls == []


def test_a_sticker_goes_out_by_its_id(telegram):
    platform = Platform(SENT)
    assert send(telegram, platform, reply(sticker={"file_id": "CAAC1", "emoji": "x"}), Part("x")) == "77"
    assert (platform.urls[0].rpartition("/")[2], platform.bodies) == (
        "sendSticker", [{"chat_id": 5000000001, "sticker": "CAAC1"}],
    )  # fmt: skip


def test_a_topic_has_the_id_that_telegram_gives(telegram):
    made = {"ok": True, "result": {"message_thread_id": 42, "name": "Plans", "icon_color": 1}}
    platform = Platform(httpx.Response(200, json=made))
    topic = telegram.make_topic("Plans\n" + "x" * 200, reply(platform_id="-100"), FakeClient(platform))
    assert asyncio.run(topic) == "42"
    assert platform.bodies == [{"chat_id": -100, "name": ("Plans " + "x" * 200)[:128]}]


def test_a_chat_that_is_no_forum_refuses_a_topic(telegram):
    platform = Platform(refusal("Bad Request: the chat is not a forum"))
    with pytest.raises(PermanentError, match="not a forum"):
        asyncio.run(telegram.make_topic("Plans", reply(platform_id="-100"), FakeClient(platform)))
