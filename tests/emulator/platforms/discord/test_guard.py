"""The rate limits of the fake Discord, which are on without a setting."""

import pytest

from emulator.platforms import RateLimit
from emulator.platforms.discord import guard

DM, CHANNEL = "1290000000000000400", "1290000000000000200"


def test_a_channel_takes_five_messages_in_five_seconds(play):
    async def scenario(world):
        send = lambda channel: world.as_bot("POST", f"/channels/{channel}/messages", {"content": "x"})  # noqa: E731
        assert [(await send(DM))[0] for _ in range(6)] == [200] * 5 + [429]
        assert (await send(CHANNEL))[0] == 200
        world.clock.advance(5000)
        assert (await send(DM))[0] == 200

    play(scenario)


def test_all_requests_share_a_limit_of_50_a_second(play):
    async def scenario(world):
        paths = ("/users/@me", "/oauth2/applications/@me")
        answers = [await world.as_bot("GET", paths[number % 2]) for number in range(51)]
        assert {status for status, _ in answers[:50]} == {200}
        status, body = answers[50]
        assert (status, body["global"]) == (429, True)

    play(scenario)


@pytest.mark.parametrize("limits", [True, False])
def test_too_many_refusals_ban_the_machine(play, monkeypatch, limits):
    monkeypatch.setattr(guard, "INVALID", RateLimit(3, 600_000))

    async def scenario(world):
        for _ in range(3):
            assert (await world.discord("GET", "/users/@me"))[0] == 401
        async with world.session.get(
            f"{world.env['DISCORD_API_BASE']}/users/@me", headers={"User-Agent": "DiscordBot (x, 1)"}
        ) as banned:
            assert (banned.status, banned.content_type) == ((429, "text/html") if limits else (401, "application/json"))
        world.clock.advance(600_000)
        assert (await world.as_bot("GET", "/users/@me"))[0] == 200

    play(scenario, limits=limits)
