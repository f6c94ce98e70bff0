"""The fake Discord: registration, messages, rate limits."""

import json

import aiohttp
import pytest

from emulator.platforms import RateLimit
from emulator.platforms.discord.calls import DiscordError, pings_of
from shared.core.errors import ConfigInvalid
from tests.emulator.platforms.discord.calls import ANA, BEN, CHANNEL, DM, MINUTE_MS, QUIET, original

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
        await world.restart(webhook_urls={**world.config.webhook_urls, "discord": "http://127.0.0.1:9/discord"})
        with pytest.raises(ConfigInvalid, match="could not be reached"):
            await world.platforms.register()

    play(scenario, runs=True)


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

    play(scenario, rate_limits={"discord": RateLimit(2, 5000)})


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
