"""What Telegram's answers say about its limits."""

import pytest

from shared.channels.telegram.limits import read, scopes_of
from shared.core.call_scopes import Scope

CHAT = Scope("chat", "-100")
BOT = Scope("bot")


def flood(seconds):
    return {"ok": False, "error_code": 429, "parameters": {"retry_after": seconds}}


@pytest.mark.parametrize(
    ("method", "body", "seconds", "scope", "wait_ms", "spreads_to"),
    [
        ("sendMessage", {"chat_id": -100}, 7, CHAT, 7_000, BOT),
        ("sendChatAction", {"chat_id": "-100"}, 60, CHAT, 60_000, BOT),
        ("sendMessage", {"chat_id": -100}, 61, CHAT, 61_000, BOT),
        ("getMe", {}, 61, Scope("method", "getMe"), 61_000, None),
        ("answerCallbackQuery", {"callback_query_id": "1"}, 3, BOT, 3_000, None),
        ("setWebhook", {"url": "https://a.example"}, 1, Scope("method", "setWebhook"), 1_000, None),
    ],
)
def test_a_429_holds_the_chat_or_the_bot(method, body, seconds, scope, wait_ms, spreads_to):
    (hold,) = read(scopes_of("sales", method, body), 429, {}, flood(seconds)).holds
    assert (hold.scope, hold.wait_ms, hold.spreads_to) == (scope, wait_ms, spreads_to)
    assert hold.reason == f"Telegram asked for a wait of {seconds} s"


@pytest.mark.parametrize(("seconds", "is_doubtful"), [(60, False), (61, True), (6_775, True)])
def test_a_long_wait_of_a_chat_may_be_the_bot_s(seconds, is_doubtful):
    (hold,) = read(scopes_of("sales", "sendMessage", {"chat_id": -100}), 429, {}, flood(seconds)).holds
    assert hold.is_doubtful is is_doubtful


def test_without_a_body_the_header_names_the_wait():
    scopes = scopes_of("telegram", "sendMessage", {"chat_id": 1})
    assert read(scopes, 429, {"retry-after": "12"}, {}).holds[0].wait_ms == 12_000
    assert read(scopes, 429, {}, {}).holds[0].wait_ms == 5_000


def test_no_other_answer_asks_for_a_wait():
    scopes = scopes_of("telegram", "sendMessage", {"chat_id": 1})
    assert [read(scopes, status, {"retry-after": "9"}, {}).holds for status in (200, 400, 401, 403, 500)] == [()] * 5


@pytest.mark.parametrize("seconds", [31_536_000, 2**63 - 1, 10**30])
def test_no_answer_stops_the_bot_for_more_than_a_day(seconds):
    scopes = scopes_of("telegram", "sendMessage", {"chat_id": 1})
    assert read(scopes, 429, {}, flood(seconds)).holds[0].wait_ms == 86_400_000
    assert read(scopes, 429, {"retry-after": "999999999"}, {}).holds[0].wait_ms == 86_400_000


@pytest.mark.parametrize("said", ["9" * 5000, "-3", "nan", "1e9", "\u0663"])
def test_a_header_that_names_no_wait_counts_as_none(said):
    scopes = scopes_of("telegram", "sendMessage", {"chat_id": 1})
    assert read(scopes, 429, {"retry-after": said}, {}).holds[0].wait_ms == 5_000


def test_a_wait_below_zero_is_a_second():
    scopes = scopes_of("telegram", "sendMessage", {"chat_id": 1})
    assert read(scopes, 429, {}, flood(-5)).holds[0].wait_ms == 1_000
