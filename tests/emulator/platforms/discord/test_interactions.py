"""The fake Discord's interactions: answers, deferrals, and tokens that expire."""

import asyncio

import pytest
from aiohttp import web

from tests.emulator.platforms.discord.calls import ANA, CHANNEL, DM, MINUTE_MS, QUIET, follow_up, original


def test_a_deferred_answer_is_edited_and_followed_up(play):
    async def scenario(world):
        news = await world.live_events()
        asked = await world.ask("what now?")
        assert (asked["state"], asked["phase"], asked["status"]) == ("delivered", "deferred", 200)
        (got,) = world.endpoint.got
        assert got.body["data"]["options"] == [{"name": "prompt", "type": 3, "value": "what now?"}]
        assert (got.body["type"], got.body["context"], got.body["user"]["id"]) == (2, 1, ANA)
        thinking = await news.until("message", state="thinking")

        status, message = await world.discord("PATCH", original(got), {"content": "this", "allowed_mentions": QUIET})
        assert (status, message["id"], message["content"]) == (200, thinking["id"], "this")
        status, second = await world.discord("POST", follow_up(got), {"content": "and that"})
        assert (status, second["content"]) == (200, "and that")
        assert await world.texts("discord", DM) == ["what now?", "this", "and that"]
        assert (await world.discord("GET", original(got)))[1]["content"] == "this"
        assert (await world.discord("DELETE", f"{follow_up(got)}/messages/{second['id']}"))[0] == 204
        assert (await world.discord("GET", f"{follow_up(got)}/messages/{second['id']}"))[1]["code"] == 10008

    play(scenario)


def test_a_server_interaction_names_the_member(play):
    async def scenario(world):
        await world.ask("hello", channel=CHANNEL)
        (got,) = world.endpoint.got
        assert (got.body["context"], got.body["member"]["user"]["id"], "user" in got.body) == (0, ANA, False)
        assert got.body["authorizing_integration_owners"] == {"0": got.body["guild_id"]}

    play(scenario)


def test_an_immediate_answer_is_shown(play):
    async def scenario(world):
        world.endpoint.discord = lambda got: web.json_response({"type": 4, "data": {"content": "at once"}})
        assert (await world.ask("hello"))["phase"] == "answered"
        assert await world.texts("discord", DM) == ["hello", "at once"]

    play(scenario)


def test_the_token_does_not_work_before_the_first_answer(play):
    """A worker that is faster than the answer to the webhook has to retry."""
    seen = []

    async def scenario(world):
        async def answer(got):
            seen.append(await world.discord("PATCH", original(got), {"content": "too early"}))
            return web.json_response({"type": 5})

        world.endpoint.discord = answer
        await world.ask("hello")
        assert seen == [(404, {"message": "Unknown Webhook", "code": 10015})]
        assert (await world.discord("PATCH", original(world.endpoint.got[0]), {"content": "now"}))[0] == 200

    play(scenario)


def test_the_token_dies_after_three_seconds_without_an_answer(play):
    async def scenario(world):
        never = asyncio.Event()

        async def answer(got):
            await never.wait()
            return web.json_response({"type": 5})

        world.endpoint.discord = answer
        asked = await world.ask("hello")
        assert (asked["phase"], asked["notice"]) == ("dead", "The application did not respond")
        got = world.endpoint.got[0]
        assert (await world.discord("PATCH", original(got), {"content": "late"}))[1]["code"] == 10015
        path = f"/interactions/{got.body['id']}/{got.body['token']}/callback"
        assert (await world.discord("POST", path, {"type": 5}))[1]["code"] == 10062
        never.set()

    play(scenario, deadline_ms=1000)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda: web.Response(status=500), "the endpoint answered 500"),
        (lambda: web.Response(text="{}"), "the answer came as text/plain, not application/json"),
        (lambda: web.Response(body=b"{", content_type="application/json"), "the answer is not JSON"),
        (lambda: web.json_response({"type": 9}), "the answer is not valid"),
        (lambda: web.json_response({"type": 4, "data": {"content": "a" * 2001}}), "Must be 2000 or fewer in length."),
        (lambda: web.json_response({"type": 4, "data": {"content": "a", "flags": "x"}}), "the answer is not valid"),
        (lambda: web.json_response({"type": 4, "data": {"content": "a", "flags": 2**70}}), "the answer is not valid"),
        (lambda: web.json_response({"type": 4, "data": {"content": "\ud83d"}}), "the answer is not JSON"),
    ],
)
def test_an_invalid_answer_counts_as_none(play, answer, why):
    async def scenario(world):
        world.endpoint.discord = lambda got: answer()
        asked = await world.ask("hello")
        assert asked["phase"] == "dead"
        assert why in asked["error"]

    play(scenario)


def test_the_answer_may_be_a_callback_but_only_once(play):
    async def scenario(world):
        codes = []

        async def answer(got):
            path = f"/interactions/{got.body['id']}/{got.body['token']}/callback"
            for _ in range(2):
                status, body = await world.discord("POST", path, {"type": 5})
                codes.append((status, body and body["code"]))
            return web.Response(status=202)

        world.endpoint.discord = answer
        assert (await world.ask("hello"))["phase"] == "deferred"
        assert codes == [(204, None), (400, 40060)]

    play(scenario)


def test_a_token_expires_after_15_minutes_and_the_bot_token_does_not(play):
    async def scenario(world):
        await world.ask("hello")
        got = world.endpoint.got[0]
        world.clock.advance(15 * MINUTE_MS)
        assert (await world.discord("PATCH", original(got), {"content": "just"}))[0] == 200
        world.clock.advance(1)
        for method, path in (("PATCH", original(got)), ("POST", follow_up(got))):
            status, body = await world.discord(method, path, {"content": "late"})
            assert (status, body["code"]) == (401, 50027)
        status, _ = await world.as_bot(
            "POST", f"/channels/{DM}/messages", {"content": "late", "allowed_mentions": QUIET}
        )
        assert status == 200
        assert (await world.discord("PATCH", "/webhooks/1/x/messages/@original", {"content": "a"}))[1]["code"] == 10015
        unknown = f"/webhooks/{world.env['DISCORD_APPLICATION_ID']}/made-up/messages/@original"
        assert (await world.discord("PATCH", unknown, {"content": "a"}))[1]["code"] == 50027

    play(scenario)


def test_a_restart_keeps_tokens_and_ends_interactions_without_an_answer(play):
    async def scenario(world):
        await world.ask("first")
        never = asyncio.Event()

        async def answer(got):
            await never.wait()
            return web.Response()

        world.endpoint.discord = answer
        await world.do(f"/control/discord/users/{ANA}/ask", {"prompt": "second", "wait": False})
        await world.endpoint.wait(2)
        await world.restart()
        never.set()
        assert (await world.discord("PATCH", original(world.endpoint.got[0]), {"content": "still"}))[0] == 200
        rows = (await world.see("/control/discord/interactions"))["interactions"]
        assert [(row["phase"], row["notice"]) for row in rows] == [
            ("answered", None),
            ("dead", "The application did not respond"),
        ]
        assert await world.texts("discord", DM) == ["first", "still", "second"]

    play(scenario)


def test_an_interaction_can_be_replayed(play):
    async def scenario(world):
        asked = await world.ask("once")
        await world.do(f"/control/discord/interactions/{asked['interaction']}/replay")
        first, second = world.endpoint.got
        assert (first.body["id"], first.body["token"]) == (second.body["id"], second.body["token"])
        assert (await world.see("/control/discord/interactions"))["interactions"][0]["phase"] == "deferred"

    play(scenario)


def test_a_callback_tells_its_message_if_asked(play):
    async def scenario(world):
        told = []

        async def answer(got):
            path = f"/interactions/{got.body['id']}/{got.body['token']}/callback?with_response=true"
            told.append(await world.discord("POST", path, {"type": 4, "data": {"content": "here"}}))
            return web.Response(status=202)

        world.endpoint.discord = answer
        await world.ask("hello")
        status, body = told[0]
        assert (status, body["interaction"]["type"], body["resource"]["message"]["content"]) == (200, 2, "here")
        assert body["interaction"]["response_message_id"] == body["resource"]["message"]["id"]

    play(scenario)
