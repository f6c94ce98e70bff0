"""``send`` against a function that plays Telegram."""

import asyncio
import json

import httpx
import pytest

from shared.channels.base import Outgoing, Part
from shared.channels.telegram import classify
from shared.errors import OutcomeUnknown, PermanentError, RateLimited, RetryableError

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
    """Answers in turn; the last answer stays."""

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
    async with httpx.AsyncClient(transport=httpx.MockTransport(platform)) as client:
        return await adapter.send(part, to or outgoing(), client, now_ms=NOW)


@pytest.fixture
def run():
    return asyncio.run


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
def test_where_a_part_goes(telegram, run, changes, expected):
    platform = Platform(httpx.Response(200, json=SENT))
    run(send(telegram, platform, outgoing(**changes)))
    (body,) = platform.bodies
    assert {
        name: body[name] for name in body if name not in ("chat_id", "text", "parse_mode", "link_preview_options")
    } == expected


@pytest.mark.parametrize(
    "description", ["Bad Request: can't parse entities: Unsupported start tag", "Bad Request: text is too long"]
)
def test_refused_markup_is_sent_as_plain_text(telegram, run, description):
    platform = Platform(refusal(400, description), httpx.Response(200, json=SENT))
    assert run(send(telegram, platform)) == "77"
    assert platform.bodies[1]["text"] == PART.text
    assert "parse_mode" not in platform.bodies[1]


def test_gives_up_thread_reply_and_markup_one_by_one(telegram, run):
    platform = Platform(
        refusal(400, "Bad Request: TOPIC_CLOSED"),
        refusal(400, "Bad Request: message to be replied not found"),
        refusal(400, "Bad Request: can't parse entities"),
        httpx.Response(200, json=SENT),
    )
    assert run(send(telegram, platform, outgoing(platform_id="-100", thread_id="17"))) == "77"
    assert set(platform.bodies[3]) == {"chat_id", "text", "link_preview_options"}


def test_what_is_refused_again_is_not_sent_again(telegram, run):
    platform = Platform(refusal(400, "Bad Request: can't parse entities"))
    with pytest.raises(PermanentError, match="can't parse entities"):
        run(send(telegram, platform))
    assert len(platform.bodies) == 2


def test_a_migrated_group_is_followed(telegram, run):
    moved = refusal(400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=-200)
    platform = Platform(moved, httpx.Response(200, json=SENT))
    assert run(send(telegram, platform, outgoing(platform_id="-100"))) == "77"
    assert [body["chat_id"] for body in platform.bodies] == [-100, -200]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(403, "Forbidden: bot was blocked by the user"), PermanentError),
        (refusal(400, "Bad Request: chat not found"), PermanentError),
        (refusal(400, "Bad Request: not enough rights to send text messages to the chat"), PermanentError),
        (refusal(400, "Bad Request: message is too long"), PermanentError),
        (refusal(413, "Request Entity Too Large"), PermanentError),
        (refusal(401, "Unauthorized"), RetryableError),
        (refusal(404, "Not Found"), RetryableError),
        (refusal(409, "Conflict"), RetryableError),
        (httpx.Response(502, text="<html>Bad Gateway</html>"), OutcomeUnknown),
        (httpx.Response(200, text="<html>"), OutcomeUnknown),
        (httpx.Response(302, headers={"location": "http://x"}), OutcomeUnknown),
        (httpx.ConnectError("no route"), RetryableError),
        (httpx.ConnectTimeout("slow"), RetryableError),
        (httpx.PoolTimeout("busy"), RetryableError),
        (httpx.ReadTimeout("slow"), OutcomeUnknown),
        (httpx.WriteTimeout("slow"), OutcomeUnknown),
        (httpx.ReadError("reset"), OutcomeUnknown),
        (httpx.RemoteProtocolError("disconnected"), OutcomeUnknown),
    ],
)
def test_failures_are_told_apart_and_never_tell_the_token(telegram, run, answer, error):
    platform = Platform(answer)
    with pytest.raises(error) as caught:
        run(send(telegram, platform))
    assert type(caught.value) is error
    assert TOKEN not in repr(caught.value)
    assert "127.0.0.1" not in repr(caught.value)
    assert caught.value.__cause__ is None, "httpx errors carry the request, and its address the token"
    assert len(platform.bodies) == 1


def test_a_refused_token_names_the_setting(telegram, run):
    with pytest.raises(RetryableError, match="TELEGRAM_BOT_TOKEN") as caught:
        run(send(telegram, Platform(refusal(401, "Unauthorized"))))
    assert caught.value.retry_after_ms == 60_000


@pytest.mark.parametrize(
    ("parameters", "wait_ms"), [({"retry_after": 7}, 7000), ({"retry_after": 0}, 1000), ({}, 5000)]
)
def test_waits_as_long_as_it_is_asked_to(telegram, run, parameters, wait_ms):
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
        (400, {"description": "Bad Request: message thread not found"}, "give_way", "no_thread"),
        (400, {"description": "Bad Request: TOPIC_DELETED"}, "give_way", "no_thread"),
        (400, {"description": "Bad Request: BUTTON_DATA_INVALID"}, "permanent", ""),
        (403, {"description": "Forbidden: bot was kicked from the group chat"}, "permanent", ""),
        (400, {}, "permanent", ""),
        (500, {"description": "Internal Server Error"}, "unknown", ""),
        (429, {"parameters": "odd"}, "wait", ""),
    ],
)
def test_classify(status, payload, outcome, step):
    verdict = classify(status, payload)
    assert (verdict.outcome, verdict.step) == (outcome, step)
    assert outcome == "sent" or verdict.reason
