"""``send`` of the Telegram adapter, against a function that plays Telegram."""

import asyncio
import json

import httpx
import pytest

from shared.channels.base import Button, Outgoing, Part, Poll
from shared.channels.telegram.answers import classify
from shared.channels.telegram.api_calls import keyboard
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

NOW = 1_795_168_000_000
TOKEN = "7100200300:AAExampleExampleExampleExampleExample"
PART = Part("bold <x>", "<b>bold</b> &lt;x&gt;")
SENT = {"ok": True, "result": {"message_id": 77}}


def outgoing(**changes):
    usual = {
        "response_id": 1,
        "part_index": 0,
        "platform_id": "5000000001",
        "thread_id": None,
        "reply_to": "12",
        "context": {},
        "asked_at_ms": NOW,
        "is_first": True,
    }
    return Outgoing(**{**usual, **changes})


def refusal(code, description, **parameters):
    return httpx.Response(
        code, json={"ok": False, "error_code": code, "description": description, "parameters": parameters}
    )


class Platform:
    """Gives the answers in turn, then repeats the last one."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.bodies = []
        self.urls = []

    def __call__(self, request):
        self.bodies.append(json.loads(request.content))
        self.urls.append(str(request.url))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def send(adapter, platform, to=None, part=PART):
    sent = await adapter.send(part, to or outgoing(), FakeClient(platform), now_ms=NOW)
    return sent.message_id


@pytest.fixture
def run():
    return asyncio.run


def test_half_a_character_in_the_answer_does_not_hide_that_the_message_arrived(telegram, run):
    """Telegram repeats the text in its answer. An answer that can't be read would count as unknown."""
    answer = rb'{"ok": true, "result": {"message_id": 77, "text": "cut \ud83d"}}'
    assert run(send(telegram, Platform(httpx.Response(200, content=answer)))) == "77"


def test_sends_html_without_previews_and_returns_the_id(telegram, run):
    platform = Platform(httpx.Response(200, json=SENT))
    assert run(send(telegram, platform)) == "77"
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
def test_the_destination_of_a_part(telegram, run, changes, expected):
    platform = Platform(httpx.Response(200, json=SENT))
    run(send(telegram, platform, outgoing(**changes)))
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
def test_refused_markup_is_sent_as_plain_text(telegram, run, description):
    platform = Platform(refusal(400, description), httpx.Response(200, json=SENT))
    assert run(send(telegram, platform)) == "77"
    assert platform.bodies[1]["text"] == PART.text
    assert "parse_mode" not in platform.bodies[1]


def test_a_refused_message_is_retried_without_reply_and_markup_in_its_topic(telegram, run):
    platform = Platform(
        refusal(400, "Bad Request: message to be replied not found"),
        refusal(400, "Bad Request: can't parse entities"),
        httpx.Response(200, json=SENT),
    )
    assert run(send(telegram, platform, outgoing(platform_id="-100", thread_id="17"))) == "77"
    assert set(platform.bodies[2]) == {"chat_id", "text", "link_preview_options", "message_thread_id"}


TOPIC_GONE = ["Bad Request: message thread not found", "Bad Request: TOPIC_CLOSED", "Bad Request: TOPIC_DELETED"]


@pytest.mark.parametrize("changes", [{}, {"buttons": (Button("Yes", "7.0"),)}, {"reply_to": None}])
@pytest.mark.parametrize("chat", ["-100", "5000000001"], ids=["group", "private chat"])
@pytest.mark.parametrize("description", TOPIC_GONE)
def test_an_answer_whose_topic_is_closed_or_gone_fails_and_goes_nowhere_else(telegram, run, description, chat, changes):
    platform = Platform(refusal(400, description), httpx.Response(200, json=SENT))
    with pytest.raises(PlaceGone, match="goes nowhere else"):
        run(send(telegram, platform, outgoing(platform_id=chat, thread_id="17", **changes)))
    assert [body["message_thread_id"] for body in platform.bodies] == [17]


def test_a_new_message_in_place_of_an_edited_one_stays_in_its_topic(telegram, run):
    refusals = refusal(400, "Bad Request: message to edit not found"), refusal(400, "Bad Request: TOPIC_CLOSED")
    platform = Platform(*refusals, httpx.Response(200, json=SENT))
    with pytest.raises(PlaceGone, match="goes nowhere else"):
        run(send(telegram, platform, outgoing(platform_id="-100", thread_id="17", edits="55")))
    assert platform.bodies[1]["message_thread_id"] == 17
    assert len(platform.bodies) == 2


def test_a_message_that_is_refused_in_its_simpler_form_fails(telegram, run):
    platform = Platform(refusal(400, "Bad Request: can't parse entities"))
    with pytest.raises(PermanentError, match="can't parse entities"):
        run(send(telegram, platform))
    assert len(platform.bodies) == 2


@pytest.mark.parametrize("code", [400, 403])
def test_a_message_to_a_migrated_group_fails_with_the_new_id(telegram, run, code):
    """The whole chat moves, not only this message: its row has to know."""
    moved = refusal(code, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=-200)
    platform = Platform(moved, httpx.Response(200, json=SENT))
    with pytest.raises(ChatMoved) as caught:
        run(send(telegram, platform, outgoing(platform_id="-100")))
    assert (caught.value.new_platform_id, len(platform.bodies)) == ("-200", 1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(403, "Forbidden: bot was blocked by the user"), ChatGone),
        (refusal(403, "Forbidden: user is deactivated"), ChatGone),
        (refusal(403, "Forbidden: bot is not a member of the supergroup chat"), ChatGone),
        (refusal(400, "Bad Request: chat not found"), ChatGone),
        (refusal(403, "Forbidden: CHAT_WRITE_FORBIDDEN"), PermanentError),
        (refusal(400, "Bad Request: not enough rights to send text messages to the chat"), PermanentError),
        (refusal(400, "Bad Request: message is too long"), PartTooLong),
        (refusal(400, "Bad Request: MESSAGE_TOO_LONG"), PartTooLong),
        (refusal(413, "Request Entity Too Large"), PermanentError),
        (refusal(401, "Unauthorized"), TokenRefused),
        (refusal(404, "Not Found"), TokenRefused),
        (refusal(409, "Conflict"), RetryableError),
        (httpx.Response(502, text="<html>Bad Gateway</html>"), PlatformDown),
        (httpx.Response(200, text="<html>"), OutcomeUnknown),
        (httpx.Response(302, headers={"location": "http://x"}), OutcomeUnknown),
        (RequestNotSent("no route"), NotSent),
        (NoAnswer("slow"), OutcomeUnknown),
    ],
)
def test_each_failure_has_its_error_and_no_error_holds_the_token(telegram, run, answer, error):
    platform = Platform(answer)
    with pytest.raises(error) as caught:
        run(send(telegram, platform))
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
def test_an_error_that_repeats_the_address_shows_no_part_of_the_token(telegram, run, status, repeated, blanks):
    """Also where the description is cut off inside the token."""
    description = f"{'x' * blanks} can't find https://api.telegram.org/bot{repeated}/sendMessage"
    with pytest.raises(PostroomError) as caught:
        run(send(telegram, Platform(refusal(status, description))))
    assert "AAEx" not in str(caught.value)


def test_a_refused_token_names_the_setting(telegram, run):
    with pytest.raises(TokenRefused, match="TELEGRAM_BOT_TOKEN"):
        run(send(telegram, Platform(refusal(401, "Unauthorized"))))


@pytest.mark.parametrize(
    ("parameters", "wait_ms"), [({"retry_after": 7}, 7000), ({"retry_after": 0}, 1000), ({}, 5000)]
)
def test_the_wait_is_as_long_as_telegram_asks(telegram, run, parameters, wait_ms):
    with pytest.raises(RateLimited) as caught:
        run(send(telegram, Platform(refusal(429, "Too Many Requests", **parameters))))
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


# -- buttons, edits, answers to a press -------------------------------------------------------------------------------

YES, NO = Button("Approve", "7.0"), Button("Refuse", "7.1")
KEYS = {"inline_keyboard": [[{"text": "Approve", "callback_data": "7.0"}, {"text": "Refuse", "callback_data": "7.1"}]]}
PRESS = {"callback_id": "4711", "message_id": "55"}
OLD = "Bad Request: query is too old and response timeout expired or query ID is invalid"


def methods(platform):
    return [url.rpartition("/")[2] for url in platform.urls]


def test_buttons_are_sent_with_the_message(telegram, run):
    platform = Platform(httpx.Response(200, json=SENT))
    run(send(telegram, platform, outgoing(buttons=(YES, NO))))
    assert platform.bodies[0]["reply_markup"] == KEYS


def test_long_labels_have_their_own_rows_and_are_cut():
    buttons = (Button("the research assistant", "1.0"), Button("😀" * 60, "1.1"), Button(" \n", "1.2"))
    first, second, third = (row for row in keyboard(buttons))
    assert first == [{"text": "the research assistant", "callback_data": "1.0"}]
    assert second[0]["text"] == "😀" * 39 + "…"
    assert third[0]["text"] == "…"


def test_an_edit_changes_the_message_and_removes_its_buttons(telegram, run):
    platform = Platform(httpx.Response(200, json={"ok": True, "result": {"message_id": 55}}))
    assert run(send(telegram, platform, outgoing(edits="55", thread_id="17"))) == "55"
    assert methods(platform) == ["editMessageText"]
    assert platform.bodies == [
        {
            "chat_id": 5000000001,
            "message_id": 55,
            "text": PART.html,
            "parse_mode": "HTML",
            "link_preview_options": {"is_disabled": True},
        }
    ]


def test_an_edit_that_changes_nothing_succeeds(telegram, run):
    platform = Platform(refusal(400, "Bad Request: message is not modified: specified new message content"))
    assert run(send(telegram, platform, outgoing(edits="55"))) == "55"


@pytest.mark.parametrize("why", ["message to edit not found", "message can't be edited", "MESSAGE_ID_INVALID"])
def test_a_message_that_cannot_be_edited_is_sent_as_a_new_one(telegram, run, why):
    platform = Platform(refusal(400, f"Bad Request: {why}"), httpx.Response(200, json=SENT))
    assert run(send(telegram, platform, outgoing(edits="55", buttons=(YES, NO)))) == "77"
    assert methods(platform) == ["editMessageText", "sendMessage"]
    assert "message_id" not in platform.bodies[1]
    assert platform.bodies[1]["reply_markup"] == KEYS


def test_an_edit_without_an_answer_is_retried(telegram, run):
    """A repeated edit makes no second message."""
    with pytest.raises(OutcomeUnknown) as caught:
        run(send(telegram, Platform(NoAnswer("slow")), outgoing(edits="55")))
    assert caught.value.is_repeatable


@pytest.mark.parametrize(("edits", "may_have_arrived"), [("55", False), (None, True)])
def test_a_server_error_is_an_outage_in_which_a_new_message_may_have_arrived(telegram, run, edits, may_have_arrived):
    with pytest.raises(PlatformDown) as caught:
        run(send(telegram, Platform(httpx.Response(503, text="x")), outgoing(edits=edits)))
    assert (caught.value.code, caught.value.may_have_arrived) == ("server_error", may_have_arrived)


def test_a_press_is_acknowledged_before_its_message_changes(telegram, run):
    platform = Platform(httpx.Response(200, json={"ok": True, "result": True}), httpx.Response(200, json=SENT))
    assert run(send(telegram, platform, outgoing(edits="55", click=PRESS))) == "77"
    assert methods(platform) == ["answerCallbackQuery", "editMessageText"]
    assert platform.bodies[0] == {"callback_query_id": "4711"}


def test_only_the_person_who_pressed_sees_the_answer_to_a_press(telegram, run):
    platform = Platform(httpx.Response(200, json={"ok": True, "result": True}))
    assert run(send(telegram, platform, outgoing(click=PRESS))) is None
    assert methods(platform) == ["answerCallbackQuery"]
    assert platform.bodies == [{"callback_query_id": "4711", "text": PART.text, "show_alert": True}]


@pytest.mark.parametrize("answer", [refusal(400, OLD), NoAnswer("slow"), RequestNotSent("no route")])
def test_an_expired_press_is_answered_with_a_message(telegram, run, answer):
    platform = Platform(answer, httpx.Response(200, json=SENT))
    assert run(send(telegram, platform, outgoing(click=PRESS))) == "77"
    assert methods(platform) == ["answerCallbackQuery", "sendMessage"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(400, OLD), PermanentError),
        (refusal(401, "Unauthorized"), TokenRefused),
        (refusal(429, "Too Many Requests", retry_after=3), RateLimited),
        (NoAnswer("slow"), OutcomeUnknown),
        (RequestNotSent("no route"), NotSent),
    ],
)
def test_in_a_group_the_answer_to_a_press_is_an_alert_or_fails(telegram, run, answer, error):
    """A message would be read by everybody in the group."""
    platform = Platform(answer, httpx.Response(200, json=SENT))
    with pytest.raises(error) as caught:
        run(send(telegram, platform, outgoing(click=PRESS, platform_id="-100")))
    assert type(caught.value) is error
    assert methods(platform) == ["answerCallbackQuery"]


def test_in_a_group_an_answer_to_a_press_that_no_alert_holds_fails(telegram, run):
    platform = Platform(httpx.Response(200, json=SENT))
    with pytest.raises(PermanentError, match="200 characters"):
        run(send(telegram, platform, outgoing(click=PRESS, platform_id="-100"), Part("x" * 201)))
    assert platform.bodies == []


def test_an_answer_too_long_for_an_alert_is_a_message(telegram, run):
    platform = Platform(httpx.Response(200, json={"ok": True, "result": True}), httpx.Response(200, json=SENT))
    long = Part("😀" * 101)
    assert run(send(telegram, platform, outgoing(click=PRESS), long)) == "77"
    assert platform.bodies[0] == {"callback_query_id": "4711"}
    assert platform.bodies[1]["text"] == long.text


# -- polls, stickers, topics ------------------------------------------------------------------------------------------

POLL = Poll("Lunch?", ("Pizza", "Noodles"), is_multiple=True, hours=2)


def test_a_poll_is_telegrams_own(telegram, run):
    platform = Platform(refusal(400, "Bad Request: message to be replied not found"), httpx.Response(200, json=SENT))
    to = outgoing(platform_id="-100", thread_id="17", poll=POLL)
    assert run(send(telegram, platform, to, Part("Lunch?"))) == "77"
    assert [url.rpartition("/")[2] for url in platform.urls] == ["sendPoll", "sendPoll"]
    assert platform.bodies[1] == {
        "chat_id": -100,
        "message_thread_id": 17,
        "question": "Lunch?",
        "options": [{"text": "Pizza"}, {"text": "Noodles"}],
        "allows_multiple_answers": True,
        "open_period": 7200,
    }


def test_a_poll_for_one_person_of_a_group_is_not_shown_to_all(telegram, run):
    platform = Platform(httpx.Response(200, json=SENT))
    with pytest.raises(PermanentError, match="one person"):
        run(send(telegram, platform, outgoing(poll=POLL, context={"receiver_user_id": "5"})))
    assert platform.urls == []


def test_a_sticker_goes_out_by_its_id(telegram, run):
    platform = Platform(httpx.Response(200, json=SENT))
    assert run(send(telegram, platform, outgoing(sticker={"file_id": "CAAC1", "emoji": "x"}), Part("x"))) == "77"
    assert (platform.urls[0].rpartition("/")[2], platform.bodies) == (
        "sendSticker", [{"chat_id": 5000000001, "sticker": "CAAC1"}],
    )  # fmt: skip


def test_a_topic_has_the_id_that_telegram_gives(telegram, run):
    made = {"ok": True, "result": {"message_thread_id": 42, "name": "Plans", "icon_color": 1}}
    platform = Platform(httpx.Response(200, json=made))
    topic = telegram.make_topic("Plans\n" + "x" * 200, outgoing(platform_id="-100"), FakeClient(platform))
    assert run(topic) == "42"
    assert platform.bodies == [{"chat_id": -100, "name": ("Plans " + "x" * 200)[:128]}]


def test_a_chat_that_is_no_forum_refuses_a_topic(telegram, run):
    platform = Platform(refusal(400, "Bad Request: the chat is not a forum"))
    with pytest.raises(PermanentError, match="not a forum"):
        run(telegram.make_topic("Plans", outgoing(platform_id="-100"), FakeClient(platform)))
