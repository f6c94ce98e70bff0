"""The fake Discord: registration, interaction tokens, messages, rate limits."""

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web

from emulator.platforms import RateLimit
from emulator.platforms.discord.calls import DiscordError, pings_of
from shared.core.errors import ConfigInvalid

ANA, BEN, DM, CHANNEL = "80000000000000001", "80000000000000002", "1290000000000000400", "1290000000000000200"
MINUTE_MS = 60_000
QUIET = {"parse": []}


def original(got):
    return f"/webhooks/{got.body['application_id']}/{got.body['token']}/messages/@original"


def follow_up(got):
    return f"/webhooks/{got.body['application_id']}/{got.body['token']}"


# registration


def test_an_endpoint_that_verifies_is_registered(play):
    async def scenario(world):
        await world.platforms.register()
        assert world.endpoint.got == []  # a PING does not count as an interaction

    play(scenario)


def test_an_endpoint_that_accepts_bad_signatures_is_refused(play):
    async def scenario(world):
        world.endpoint.checks_signatures = False
        with pytest.raises(ConfigInvalid, match="answered 200 to a request with a bad signature, instead of 401"):
            await world.platforms.register()
        async with world.session.post(world.platforms.url + "/control/register") as response:
            assert (response.status, "bad signature" in (await response.json())["error"]) == (502, True)

    play(scenario, runs=True)


def test_an_endpoint_that_refuses_all_signatures_or_is_down_is_refused(play):
    async def scenario(world):
        key, world.endpoint.app_key = world.endpoint.app_key, "00" * 31 + "01"
        with pytest.raises(ConfigInvalid, match=r"answered 401 .* to a PING with a valid signature"):
            await world.platforms.register()
        world.endpoint.app_key = key
        await world.restart(discord_interactions_url="http://127.0.0.1:9/discord")
        with pytest.raises(ConfigInvalid, match="could not be reached"):
            await world.platforms.register()

    play(scenario, runs=True)


# an interaction and its token


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


# messages


def test_a_nonce_is_sent_once(play):
    async def scenario(world):
        send = lambda **more: world.as_bot("POST", f"/channels/{DM}/messages", {"content": "x", **more})  # noqa: E731
        ids = [(await send(nonce="n1", enforce_nonce=True))[1]["id"] for _ in range(2)]
        assert len(set(ids)) == 1
        assert (await send(nonce="n1"))[1]["id"] not in ids  # not enforced: only an echo
        world.clock.advance(5 * MINUTE_MS + 1)
        assert (await send(nonce="n1", enforce_nonce=True))[1]["id"] not in ids
        assert (await send(nonce="n" * 26))[1]["code"] == 50035
        assert len(await world.texts("discord", DM)) == 3

    play(scenario)


def test_refusals_have_discords_form(play):
    async def scenario(world):
        path = f"/channels/{DM}/messages"
        assert await world.as_bot("POST", path, {"content": "a" * 2001}) == (
            400,
            {
                "message": "Invalid Form Body",
                "code": 50035,
                "errors": {
                    "content": {
                        "_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 2000 or fewer in length."}]
                    }
                },
            },
        )
        assert (await world.as_bot("POST", path, {"content": "a" * 2000}))[0] == 200
        assert (await world.as_bot("POST", path, {"content": "  "}))[1]["code"] == 50006
        assert (await world.as_bot("POST", "/channels/1/messages", {"content": "a"}))[1]["code"] == 10003
        assert await world.discord("POST", path, {"content": "a"}) == (401, {"message": "401: Unauthorized", "code": 0})
        assert (await world.as_bot("PATCH", f"{path}/1", {"content": "a"}))[1]["code"] == 10008
        contradiction = {"content": "a", "allowed_mentions": {"parse": ["users"], "users": [ANA]}}
        assert (await world.as_bot("POST", path, contradiction))[1]["code"] == 50035
        for strange in ({"flags": "x"}, {"allowed_mentions": {"parse": 5}}, {"allowed_mentions": {"users": 5}}):
            assert (await world.as_bot("POST", path, {"content": "a", **strange}))[1]["code"] == 50035
        await world.do(f"/control/discord/chats/{DM}/block", {"blocked": True})
        assert (await world.as_bot("POST", path, {"content": "a"}))[1]["code"] == 50007

        bot = {"Authorization": f"Bot {world.env['DISCORD_BOT_TOKEN']}"}
        address = world.env["DISCORD_API_BASE"] + path
        async with world.session.post(address, json={"content": "a"}, headers=bot) as response:
            assert response.status == 403  # no DiscordBot user agent
        headers = {**bot, "User-Agent": "DiscordBot (x, 1)", "Content-Type": "application/json"}
        for body, code in ((b"{", 50109), (b'{"content": "\\ud83d"}', 50109), (b"[]", 50035)):
            async with world.session.post(address, data=body, headers=headers) as response:
                assert (response.status, (await response.json())["code"]) == (400, code)

    play(scenario, limits=False)


def test_a_multipart_body_carries_json_beside_files(play):
    async def scenario(world):
        form = aiohttp.FormData()
        form.add_field("payload_json", json.dumps({"content": "with a file"}), content_type="application/json")
        form.add_field("files[0]", b"abc", filename="a.txt")
        headers = {"Authorization": f"Bot {world.env['DISCORD_BOT_TOKEN']}", "User-Agent": "DiscordBot (x, 1)"}
        address = f"{world.env['DISCORD_API_BASE']}/channels/{DM}/messages"
        async with world.session.post(address, data=form, headers=headers) as response:
            assert (await response.json())["content"] == "with a file"

    play(scenario)


@pytest.mark.parametrize(
    ("allowed", "default", "expected"),
    [
        (None, ("users", "roles", "everyone"), ["everyone", "user:1", "user:2", "role:3"]),
        (None, ("users",), ["user:1", "user:2"]),
        ({"parse": []}, ("users", "roles", "everyone"), []),
        ({}, ("users",), []),
        ({"parse": ["roles"], "users": ["2"]}, ("users",), ["user:2", "role:3"]),
    ],
)
def test_pings_follow_discords_rules(allowed, default, expected):
    pings, would_ping = pings_of("@here <@1> <@!2> <@&3> <@1>", allowed, default=default)
    assert pings == expected
    assert would_ping == pings_of("@here <@1> <@!2> <@&3> <@1>", None, default=default)[0]


def test_a_contradiction_in_allowed_mentions_is_refused():
    with pytest.raises(DiscordError):
        pings_of("x", {"parse": ["roles"], "roles": ["3"]}, default=())


def test_the_transcript_lists_pings(play):
    async def scenario(world):
        content = f"@everyone <@{BEN}>"
        await world.as_bot("POST", f"/channels/{CHANNEL}/messages", {"content": content, "allowed_mentions": QUIET})
        await world.as_bot("POST", f"/channels/{CHANNEL}/messages", {"content": content})
        quiet, loud = (await world.see(f"/control/discord/chats/{CHANNEL}"))["messages"]
        assert (quiet["pings"], quiet["would_ping"]) == ([], ["everyone", f"user:{BEN}"])
        assert loud["pings"] == ["everyone", f"user:{BEN}"]

    play(scenario)


def test_rate_limits_are_in_headers_and_enforced_if_set(play):
    async def scenario(world):
        headers = {"Authorization": f"Bot {world.env['DISCORD_BOT_TOKEN']}", "User-Agent": "DiscordBot (x, 1)"}
        address = f"{world.env['DISCORD_API_BASE']}/channels/{DM}/messages"
        seen = []
        for _ in range(3):
            async with world.session.post(address, json={"content": "a"}, headers=headers) as response:
                seen.append((response.status, response.headers["X-RateLimit-Remaining"]))
                body = await response.json()
        assert seen == [(200, "1"), (200, "0"), (429, "0")]
        assert body["retry_after"] == 5.0
        assert (response.headers["Retry-After"], response.headers["X-RateLimit-Scope"]) == ("5", "user")
        assert (await world.as_bot("POST", f"/channels/{CHANNEL}/messages", {"content": "a"}))[0] == 200
        world.clock.advance(5000)
        assert (await world.as_bot("POST", f"/channels/{DM}/messages", {"content": "a"}))[0] == 200

    play(scenario, discord_rate_limit=RateLimit(2, 5000))


def test_faults_and_the_log_of_calls_without_tokens(play):
    async def scenario(world):
        await world.ask("hello")
        got = world.endpoint.got[0]
        method = "PATCH /webhooks/{app}/{token}/messages/{message}"
        await world.do(
            "/control/discord/faults", {"kind": "status", "status": 429, "retry_after": 0.4, "method": method}
        )
        status, body = await world.discord("PATCH", original(got), {"content": "a"})
        assert (status, body["retry_after"], body["global"]) == (429, 0.4, False)
        await world.do("/control/discord/faults", {"kind": "accept_then_drop", "chat": DM})
        with pytest.raises(aiohttp.ClientError):
            await world.discord("PATCH", original(got), {"content": "b"})
        assert await world.texts("discord", DM) == ["hello", "b"]
        calls = (await world.see(f"/control/discord/calls?chat={DM}"))["calls"]
        assert [(c["method"], c["status"], c["fault"], c["params"]["body"]) for c in calls] == [
            (method, 429, "status", {"content": "a"}),
            (method, 200, "accept_then_drop", {"content": "b"}),
        ]
        assert got.body["token"] not in json.dumps(calls)

    play(scenario)


def test_typing_direct_messages_reactions_and_commands(play):
    async def scenario(world):
        news = await world.live_events()
        assert (await world.as_bot("POST", f"/channels/{DM}/typing"))[0] == 204
        assert (await news.until("typing"))["for_ms"] == 10_000
        assert (await world.as_bot("POST", "/users/@me/channels", {"recipient_id": ANA}))[1]["id"] == DM
        assert (await world.as_bot("POST", "/users/@me/channels", {"recipient_id": "1"}))[1]["code"] == 50033
        sent = (await world.as_bot("POST", f"/channels/{DM}/messages", {"content": "x"}))[1]["id"]
        for _ in range(2):
            assert (await world.as_bot("PUT", f"/channels/{DM}/messages/{sent}/reactions/👀/@me"))[0] == 204
        assert (await world.see(f"/control/discord/chats/{DM}"))["messages"][0]["reactions"] == ["👀"]
        app = world.env["DISCORD_APPLICATION_ID"]
        commands = [{"name": "ask", "description": "Ask the agent"}]
        assert (await world.as_bot("PUT", f"/applications/{app}/commands", commands))[0] == 200
        assert (await world.as_bot("GET", f"/applications/{app}/commands"))[1][0]["name"] == "ask"
        for name in ("no spaces", "Ask", "", "a" * 33):
            refused = await world.as_bot("PUT", f"/applications/{app}/commands", [{"name": name}])
            assert refused[1]["code"] == 50035
        in_a_menu = [{"name": "Ask Postroom", "type": 3}]
        assert (await world.as_bot("PUT", f"/applications/{app}/commands", in_a_menu))[0] == 200

    play(scenario, limits=False)


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
