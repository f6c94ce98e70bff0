"""The record of requests: bounded, without tokens, and with every attempt."""

import sys

import apsw
import pytest
from aiohttp import web

from emulator.platforms.record import request_log
from emulator.platforms.record.request_log import RequestLog

ANA = "5000000001"
CALL = {"at_ms": 1, "method": "sendMessage", "chat": ANA, "status": 200, "fault": None, "took_ms": 1.0}


@pytest.fixture
def kept():
    return RequestLog(apsw.Connection(":memory:"))


def test_tokens_have_a_mask_wherever_they_stand(kept):
    token = "7900000001:" + "a" * 35
    params = {"secret_token": "s3cret", "url": f"https://example.com/bot{token}/x", "list": [{"token": "t"}]}
    added = kept.add_call("telegram", **CALL, params=params, answer={"ok": True, "result": token})
    (read,) = kept.calls("telegram")
    assert read == added
    assert read["params"] == {"secret_token": "***", "url": "https://example.com/bot***/x", "list": [{"token": "***"}]}
    assert read["answer"]["result"] == "***"


def test_a_long_body_is_cut_and_says_so(kept):
    kept.add_call("telegram", **CALL, params={"text": "x" * 100_000}, answer={})
    (read,) = kept.calls("telegram")
    assert read["params"].endswith("… (100012 characters; the rest is not kept)")
    assert len(read["params"]) < request_log.MOST + 100


def test_a_body_that_no_one_can_read_does_not_end_the_delivery(kept):
    levels = 900 if sys.version_info < (3, 12) else 5000  # which JSON can be read, and a function can't go down
    deep = request_log.read_body(b"[" * levels + b"]" * levels)
    half = request_log.read_body(rb'{"text": "\ud83d"}')
    for body in (deep, half, request_log.read_body(b"\xff")):
        kept.add_call("telegram", **CALL, params={}, answer=body)
    assert [each["answer"] for each in kept.calls("telegram")] == [
        "(nested too deeply to be kept)",
        {"text": "\ufffd"},
        "\ufffd",
    ]


def test_the_newest_are_kept(kept, monkeypatch):
    monkeypatch.setattr(request_log, "KEEP", 10)
    for _ in range(500):
        kept.add_call("telegram", **CALL, params={}, answer={})
    assert [each["seq"] for each in kept.calls("telegram")] == list(range(491, 501))


def test_each_attempt_of_an_update_is_kept_with_its_answer(play):
    async def scenario(world):
        world.endpoint.telegram = lambda got: web.Response(
            status=503 if len(world.endpoint.got) == 1 else 200, text="x"
        )
        await world.platforms.register()
        news = await world.live_events()
        said = await world.say("hello")
        await news.until("delivery", state="delivered")
        (first, second) = (await world.see(f"/chat/telegram/webhooks/{said['update_id']}"))["attempts"]
        assert [(each["status"], each["answer"]) for each in (first, second)] == [(503, "x"), (200, "x")]
        assert first["body"]["message"]["text"] == "hello"
        assert "503" in first["error"]

    play(scenario, runs=True)


def test_an_interaction_is_kept_without_its_token(play):
    async def scenario(world):
        await world.platforms.register()
        asked = await world.ask("why?")
        (kept,) = (await world.see(f"/chat/discord/webhooks/{asked['interaction']}"))["attempts"]
        assert (kept["kind"], kept["status"], kept["answer"]) == ("interaction", 200, {"type": 5})
        assert (kept["body"]["token"], kept["body"]["data"]["name"]) == ("***", "ask")

    play(scenario)


def test_why_a_message_has_no_answer_is_asked_by_account_chat_and_message(play):
    async def why(account, chat, message):
        return {"state": "dropped", "reason": f"{account} {chat} {message}", "until": None}

    async def scenario(world):
        path = f"/chat/telegram/chats/{ANA}/messages/7/why"
        assert (await world.see(path))["why"]["reason"] == f"telegram {ANA} 7"

    play(scenario, why=why)
