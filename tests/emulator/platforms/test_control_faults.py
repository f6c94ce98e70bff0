"""The faults of the whole emulator over the control API, and a slow network between the fakes and the functions."""

import json
from pathlib import Path

from emulator.base.faults import Faults
from tests.emulator.platforms.conftest import ManualClock, World


def test_each_target_has_its_faults_and_all_are_listed_and_lifted_together(play) -> None:
    bucket = Faults("bucket", ManualClock().now_ms)

    async def scenario(world: World) -> None:
        added = (await world.do("/control/bucket/faults", {"kind": "drop"}))["fault"]
        await world.do("/control/discord/faults", {"kind": "drop"})
        assert [fault.id for fault in bucket.standing()] == [added["id"]]
        assert [each["target"] for each in (await world.see("/control/faults"))["faults"]] == ["bucket", "discord"]
        assert [each["target"] for each in (await world.see("/control/bucket/faults"))["faults"]] == ["bucket"]
        shown = (await world.see("/chat/unwell"))["unwell"]
        assert shown == [], "the emulator gives the sentences"
        async with world.session.delete(world.platforms.url + "/control/faults") as answer:
            assert await answer.json() == {"lifted": 2}
        async with world.session.post(world.platforms.url + "/control/moon/faults", json={}) as answer:
            assert answer.status == 404
            assert "only of bucket, telegram, discord" in (await answer.json())["error"]

    play(scenario, faults={"bucket": bucket})


def test_a_slow_network_delays_the_calls_of_bots_alone(play) -> None:
    clock = ManualClock()
    network = Faults("network", clock.now_ms)

    async def scenario(world: World) -> None:
        await world.do("/control/network/faults", {"kind": "slow", "delay_ms": 700, "times": 1})
        await world.see("/control/telegram/chats")
        assert world.clock.waits == []
        assert (await world.bot("getMe"))["ok"]
        assert world.clock.waits == [700]
        assert (await world.bot("getMe"))["ok"]
        assert world.clock.waits == [700]

    play(scenario, runs=True, faults={"network": network})


def test_a_slow_network_delays_the_calls_of_a_second_bot_too(play, tmp_path: Path) -> None:
    clock, tokens = ManualClock(), tmp_path / "p.db.tokens"
    network = Faults("network", clock.now_ms)

    async def scenario(world: World) -> None:
        await world.restart(account_tokens=tokens)
        async with world.session.put(f"{world.platforms.url}/control/accounts/telegram.sales") as answer:
            assert answer.status == 201
        kept = json.loads(tokens.read_text())["telegram.sales"]
        await world.do("/control/network/faults", {"kind": "slow", "delay_ms": 700, "times": 1})
        before = list(world.clock.waits)
        await world.see("/accounts/telegram.sales/control/telegram/chats")
        assert world.clock.waits == before
        async with world.session.post(f"{kept['api_base']}/bot{kept['bot_token']}/getMe") as answer:
            assert answer.status == 200
        assert world.clock.waits == [*before, 700]

    play(scenario, runs=True, faults={"network": network})
