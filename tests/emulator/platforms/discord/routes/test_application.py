"""What a bot reads about itself, and its commands."""

import asyncio

import pytest

from tests.emulator.platforms.discord.gateway.test_server import App

GUILD = "1290000000000000100"


def test_the_app_the_bot_and_the_server(play):
    async def scenario(world):
        app = (await world.as_bot("GET", "/applications/@me"))[1]
        assert (app["id"], app["verify_key"]) == (world.env["DISCORD_APPLICATION_ID"], world.env["DISCORD_PUBLIC_KEY"])
        assert app["interactions_endpoint_url"] == world.config.webhook_urls["discord"]
        me = (await world.as_bot("GET", "/users/@me"))[1]
        assert (me["bot"], me["mfa_enabled"], me["id"]) == (True, False, app["id"])
        channels = (await world.as_bot("GET", f"/guilds/{GUILD}/channels"))[1]
        assert channels[0]["permission_overwrites"] == []
        assert (await world.as_bot("GET", "/guilds/5"))[1]["code"] == 10004
        assert (await world.discord("GET", "/gateway"))[1]["url"].startswith("ws://")

    play(scenario, limits=False)


def test_json_has_no_charset(play):
    """discord.py reads a body as JSON only then."""

    async def scenario(world):
        headers = {"User-Agent": "DiscordBot (x, 1)", "Authorization": f"Bot {world.env['DISCORD_BOT_TOKEN']}"}
        async with world.session.get(world.env["DISCORD_API_BASE"] + "/users/@me", headers=headers) as response:
            assert response.headers["Content-Type"] == "application/json"

    play(scenario)


def test_a_command_keeps_its_id_when_all_are_replaced(play):
    async def scenario(world):
        path = f"/applications/{world.env['DISCORD_APPLICATION_ID']}/commands"
        ask, menu = {"name": "ask", "description": "Ask"}, {"name": "Ask about this", "type": 3}
        first = (await world.as_bot("PUT", path, [ask, menu]))[1]
        assert (first[0]["default_member_permissions"], first[1]["type"]) == (None, 3)
        second = (await world.as_bot("PUT", path, [{**ask, "description": "Ask me"}]))[1]
        assert [each["id"] for each in second] == [first[0]["id"]]
        assert second[0]["version"] != first[0]["version"]
        assert (await world.as_bot("GET", path))[1] == second
        assert (await world.as_bot("GET", path.replace("/commands", f"/guilds/{GUILD}/commands")))[1] == []

    play(scenario, limits=False)


def test_one_command_is_added_changed_and_removed(play):
    async def scenario(world):
        path = f"/applications/{world.env['DISCORD_APPLICATION_ID']}/commands"
        status, made = await world.as_bot("POST", path, {"name": "ask", "description": "Ask"})
        assert status == 201
        status, again = await world.as_bot("POST", path, {"name": "ask", "description": "Ask me"})
        assert (status, again["id"]) == (200, made["id"])
        changed = await world.as_bot("PATCH", f"{path}/{made['id']}", {"description": "New"})
        assert changed[1]["description"] == "New"
        assert (await world.as_bot("DELETE", f"{path}/{made['id']}"))[0] == 204
        assert (await world.as_bot("GET", f"{path}/{made['id']}"))[1]["code"] == 10063

    play(scenario, limits=False)


@pytest.mark.parametrize(
    ("commands", "code"),
    [
        ([{"name": "ask", "description": "x"}] * 2, 50035),
        ([{"name": f"Menu {n}", "type": 3} for n in range(16)], 30032),
        ([{"name": "ask", "description": "a" * 101}], 50035),
        ([{"name": "ask", "description": "x", "options": [{"type": 99, "name": "p", "description": "x"}]}], 50035),
    ],
)
def test_commands_that_are_refused(play, commands, code):
    async def scenario(world):
        path = f"/applications/{world.env['DISCORD_APPLICATION_ID']}/commands"
        assert (await world.as_bot("PUT", path, commands))[1]["code"] == code
        other = "/applications/1/commands"
        assert (await world.as_bot("PUT", other, []))[1]["code"] == 20012

    play(scenario)


def test_an_address_is_checked_when_the_app_sets_it(play):
    async def scenario(world):
        url = world.config.webhook_urls["discord"]
        assert (await world.as_bot("PATCH", "/applications/@me", {"interactions_endpoint_url": url}))[0] == 200
        wrong = {"interactions_endpoint_url": "http://127.0.0.1:9/nobody"}
        assert (await world.as_bot("PATCH", "/applications/@me", wrong))[1]["code"] == 50035
        assert (await world.as_bot("GET", "/applications/@me"))[1]["interactions_endpoint_url"] == url

    play(scenario)


def test_without_an_address_interactions_go_to_the_gateway(play):
    async def scenario(world):
        app = await App.connect(world)
        await app.ready(intents=0)
        none = {"interactions_endpoint_url": None}
        assert (await world.as_bot("PATCH", "/applications/@me", none))[1]["interactions_endpoint_url"] is None
        ask = asyncio.create_task(world.ask("hello"))
        got = (await app.until("INTERACTION_CREATE"))["d"]
        path = f"/interactions/{got['id']}/{got['token']}/callback"
        assert (await world.discord("POST", path, {"type": 4, "data": {"content": "by callback"}}))[0] == 204
        assert (await ask)["phase"] == "answered"
        assert world.endpoint.got == []

    play(scenario)
