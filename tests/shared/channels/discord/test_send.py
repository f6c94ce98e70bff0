"""``send`` of the Discord adapter, against a function that plays Discord."""

import asyncio
from urllib.parse import quote

import httpx
import pytest

from shared.channels.discord.api_calls import RACE_MS, classify, race_wait_ms
from shared.core.errors import (
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
from tests.shared.channels.discord.sending import BASE, BOT, MESSAGE, TOKEN, WEBHOOK, Platform, ok, refusal, send


def test_the_first_part_replaces_the_thinking_message(discord):
    platform = Platform(ok())
    assert send(discord, platform) == "4242"
    assert platform.calls == [f"PATCH {WEBHOOK}/messages/@original"]
    assert "authorization" not in platform.requests[0].headers


def test_later_parts_are_follow_up_messages(discord):
    platform = Platform(ok())
    assert send(discord, platform, part_index=1, is_first=False) == "4242"
    assert platform.calls == [f"POST {WEBHOOK}"]


@pytest.mark.parametrize(("age_ms", "is_bot"), [(869_999, False), (870_000, True), (86_400_000, True)])
def test_the_bot_sends_by_itself_before_the_token_expires(discord, age_ms, is_bot):
    platform = Platform(ok())
    assert send(discord, platform, age_ms=age_ms, thread_id="300") == "4242"
    (call,) = platform.calls
    assert call == (f"POST {BASE}/channels/300/messages" if is_bot else f"PATCH {WEBHOOK}/messages/@original")


def test_the_bot_sends_a_nonce_that_is_the_same_on_every_retry(discord):
    """With ``enforce_nonce``, Discord answers a repeated send with the existing message."""
    platform = Platform(ok())
    for changes in ({}, {}, {"part_index": 1}, {"response_id": 2}, {"age_ms": 900_001}):
        send(discord, platform, **{"age_ms": 900_000, **changes})
    nonces = [body["nonce"] for body in platform.bodies]
    assert nonces[0] == nonces[1]
    assert len(set(nonces)) == 4
    assert all(
        len(nonce) <= 25 and body["enforce_nonce"] is True for nonce, body in zip(nonces, platform.bodies, strict=True)
    )
    assert platform.requests[0].headers["authorization"] == f"Bot {BOT}"


@pytest.mark.parametrize("changes", [{}, {"is_first": False}, {"age_ms": 900_000}])
def test_no_call_allows_a_ping(discord, changes):
    platform = Platform(ok())
    send(discord, platform, **changes)
    assert platform.bodies[0]["content"] == "hi @everyone"
    assert platform.bodies[0]["allowed_mentions"] == {"parse": [], "replied_user": False}
    assert platform.requests[0].headers["user-agent"].startswith("DiscordBot (")


@pytest.mark.parametrize("code", [10015, 10062, 50027])
def test_after_an_expired_token_the_bot_sends_by_itself_in_the_same_attempt(discord, code):
    platform = Platform(refusal(404, code), ok())
    assert send(discord, platform) == "4242"
    assert platform.calls[1] == f"POST {BASE}/channels/200/messages"


def test_a_late_answer_fails_with_a_reason_where_the_bot_is_no_member(discord):
    context = {"sealed_token": discord.seal(TOKEN), "bot_is_there": False}
    platform = Platform(refusal(404, 10015))
    with pytest.raises(PermanentError, match="15 minutes"):
        send(discord, platform, context=context)
    with pytest.raises(PermanentError, match="15 minutes"):
        send(discord, platform, context=context, age_ms=900_000)
    assert len(platform.calls) == 1


def test_the_bot_sends_a_proactive_message_by_itself(discord):
    platform = Platform(ok())
    send(discord, platform, context={})
    assert platform.calls == [f"POST {BASE}/channels/200/messages"]


@pytest.mark.parametrize(("age_ms", "wait_ms"), [(0, 250), (240, 250), (300, 500), (999, 500), (1500, 1000)])
@pytest.mark.parametrize("code", [10015, 10062, 10008])
def test_an_unknown_webhook_right_after_the_answer_is_retried(discord, age_ms, wait_ms, code):
    with pytest.raises(RetryableError) as caught:
        send(discord, Platform(refusal(404, code)), age_ms=age_ms)
    assert caught.value.retry_after_ms == wait_ms


def test_the_waits_of_the_race_end_before_five_attempts():
    """Five failures make a response dead; the race must end before that."""
    age, failures = 0, 0
    while age < RACE_MS:
        failures, age = failures + 1, age + race_wait_ms(age)
    assert failures < 5


def test_a_deleted_original_gets_a_follow_up_instead(discord):
    platform = Platform(refusal(404, 10008), ok())
    assert send(discord, platform) == "4242"
    assert platform.calls[1] == f"POST {WEBHOOK}"


@pytest.mark.parametrize(("status", "code"), [(400, 50083), (400, 160005), (404, 10003)])
def test_an_answer_whose_thread_is_archived_locked_or_gone_fails_and_goes_nowhere_else(discord, status, code):
    platform = Platform(refusal(status, code), ok())
    with pytest.raises(PlaceGone, match="goes nowhere else"):
        send(discord, platform, age_ms=900_000, thread_id="300")
    assert platform.calls == [f"POST {BASE}/channels/300/messages"]


@pytest.mark.parametrize(
    "changes",
    [{}, {"age_ms": 900_000}, {"is_first": False}],
    ids=["for as long as the token lives", "bot with nonce, for minutes", "follow-up, never"],
)
def test_no_answer_can_be_repeated_at_any_time(discord, changes):
    """An edit can: see ``test_buttons.py``. Whether an answer can be repeated now, ``find_sent`` says."""
    for answer in (NoAnswer("slow"), NoAnswer("gone")):
        with pytest.raises(OutcomeUnknown) as caught:
            send(discord, Platform(answer), **changes)
        assert not caught.value.is_repeatable
    with pytest.raises(PlatformDown) as down:
        send(discord, Platform(httpx.Response(502, text="x")), **changes)
    assert down.value.may_have_arrived


@pytest.mark.parametrize(
    ("answer", "error", "wait_ms"),
    [
        (httpx.Response(429, json={"retry_after": 0.2501, "global": False}), RateLimited, 251),
        (httpx.Response(429, json={"retry_after": 64.5, "global": True}), RateLimited, 64_500),
        (httpx.Response(429, text="<html>blocked</html>"), RateLimited, 300_000),
        (refusal(400, 20028), RateLimited, 5_000),
        (refusal(401, 0, "401: Unauthorized"), TokenRefused, None),
        (refusal(403, 50001), PermanentError, None),
        (refusal(400, 50035), PermanentError, None),
        (refusal(400, 40094), PermanentError, None),
        (refusal(404, 10003), PlaceGone, None),
        (RequestNotSent("refused"), NotSent, None),
    ],
)
@pytest.mark.parametrize("changes", [{}, {"is_first": False}, {"age_ms": 900_000}])
def test_each_failure_has_its_error_and_no_error_holds_a_token(discord, answer, error, wait_ms, changes):
    platform = Platform(answer)
    with pytest.raises(error) as caught:
        send(discord, platform, **changes)
    assert type(caught.value) is error
    assert getattr(caught.value, "retry_after_ms", None) == wait_ms
    assert not any(secret in repr(caught.value) for secret in (TOKEN, BOT, "127.0.0.1"))
    assert caught.value.__cause__ is None, "a cause would be told with it"


TOO_LONG = {"content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 2000 or fewer in length."}]}}
OTHER = {"components": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 5 or fewer in length."}]}}


@pytest.mark.parametrize(
    ("errors", "error"), [(TOO_LONG, PartTooLong), (OTHER, PermanentError), ("odd", PermanentError)]
)
@pytest.mark.parametrize("changes", [{}, {"is_first": False}, {"age_ms": 900_000}])
def test_only_a_text_that_is_too_long_can_be_cut(discord, errors, error, changes):
    answer = httpx.Response(400, json={"code": 50035, "message": "Invalid Form Body", "errors": errors})
    with pytest.raises(PermanentError) as caught:
        send(discord, Platform(answer), **changes)
    assert type(caught.value) is error


@pytest.mark.parametrize("blanks", [0, 150, 180])
@pytest.mark.parametrize("secret", [TOKEN, quote(TOKEN, safe=""), BOT])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 503])
def test_an_error_that_repeats_the_address_shows_no_part_of_a_token(discord, status, secret, blanks):
    """Also where the message is cut off inside the token."""
    message = f"{'x' * blanks} no route /webhooks/1290000000000000001/{secret}"
    with pytest.raises(PostroomError) as caught:
        send(discord, Platform(refusal(status, 0, message)), is_first=False)
    assert secret[:6] not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "payload", "outcome", "step"),
    [
        (200, MESSAGE, "sent", ""),
        (204, {}, "sent", ""),
        (400, {"code": 40060}, "sent", ""),
        (404, {"code": 10062}, "permanent", "expired"),
        (403, {"code": 30046}, "permanent", "gone"),
        (400, {"code": 200000}, "permanent", ""),
        (429, {"retry_after": "soon"}, "wait", ""),
        (503, {}, "down", ""),
    ],
)
def test_classify(status, payload, outcome, step):
    result = classify(status, payload)
    assert (result.outcome, result.step) == (outcome, step)


def open_direct(discord, platform):
    async def go():
        return await discord.open_direct("80000000000000001", FakeClient(platform))

    return asyncio.run(go())


def test_the_bot_opens_a_direct_chat(discord):
    platform = Platform(httpx.Response(200, json={"id": "400", "type": 1}))
    assert open_direct(discord, platform) == "400"
    assert platform.calls == [f"POST {BASE}/users/@me/channels"]
    assert platform.bodies == [{"recipient_id": "80000000000000001"}]
    assert platform.requests[0].headers["authorization"] == f"Bot {BOT}"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(403, 50007, "Cannot send messages to this user"), PermanentError),
        (refusal(400, 50033), PermanentError),
        (httpx.Response(429, json={"retry_after": 1}), RateLimited),
        (NoAnswer("slow"), RetryableError),
        (httpx.Response(502, text="x"), PlatformDown),
        (httpx.Response(200, json={}), RetryableError),
    ],
)
def test_a_failure_to_open_a_direct_chat_is_retryable_or_permanent(discord, answer, error):
    """The outcome is never unknown: two calls open one channel."""
    with pytest.raises(error) as caught:
        open_direct(discord, Platform(answer))
    assert type(caught.value) is error
    assert not getattr(caught.value, "may_have_arrived", False)


@pytest.mark.parametrize(
    ("changes", "reference"),
    [
        ({"context": {"guild_id": "1"}}, {"message_id": "9", "fail_if_not_exists": False}),
        ({"context": {"guild_id": "1"}, "reply_to": None}, None),
        ({"context": {"guild_id": "1"}, "is_first": False}, None),
        ({"context": {"interaction_id": "9", "bot_is_there": True}}, None),
    ],
)
def test_an_answer_quotes_the_message_that_it_answers_but_no_interaction(discord, changes, reference):
    platform = Platform(ok())
    send(discord, platform, **changes)
    assert platform.bodies[0].get("message_reference") == reference


THREAD = {"context": {"guild_id": "1", "makes_thread": "status?"}, "thread_id": "9", "reply_to": "9"}
MADE = f"POST {BASE}/channels/200/messages/9/threads"
IN_THREAD = f"POST {BASE}/channels/9/messages"


@pytest.mark.parametrize("made", [httpx.Response(201, json={"id": "9"}), refusal(400, 160004)])
def test_the_first_answer_makes_its_thread_and_stands_in_it(discord, made):
    platform = Platform(made, ok())
    assert send(discord, platform, **THREAD) == "4242"
    assert platform.calls == [MADE, IN_THREAD]
    assert platform.bodies[0]["name"] == "status?"
    assert "message_reference" not in platform.bodies[1]  # the message is in the channel, not in the thread


def test_later_answers_go_into_the_thread_that_is_there(discord):
    platform = Platform(ok())
    send(discord, platform, **THREAD, is_first=False)
    assert platform.calls == [IN_THREAD]


@pytest.mark.parametrize(
    ("answer", "error"),
    [(refusal(403, 50013), PermanentError), (refusal(500, 0), RetryableError), (NoAnswer("x"), RetryableError)],
)
def test_an_answer_whose_thread_cannot_be_made_goes_nowhere_else(discord, answer, error):
    platform = Platform(answer)
    with pytest.raises(error):
        send(discord, platform, **THREAD)
    assert platform.calls == [MADE]
