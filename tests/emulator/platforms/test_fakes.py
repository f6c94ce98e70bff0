"""Every channel has a fake, and every fake what the emulator needs of it."""

import pytest

from emulator.base.fakes import FAKES, PLATFORMS
from emulator.platforms import fakes
from shared.channels import registry


def test_each_channel_has_a_fake():
    missing = sorted({*registry.PLATFORMS} - {*PLATFORMS})
    assert not missing, (
        f"add a folder for each below emulator/platforms, and its line in emulator/base/fakes.py: {missing}"
    )
    assert {*PLATFORMS} == {*registry.PLATFORMS}


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_fake_gives_the_settings_that_its_channel_needs(play, name):
    async def scenario(world):
        given = world.platforms.fakes[name].environment()
        manifest = registry.manifest(name)
        assert {f"{name.upper()}_{each.name}" for each in manifest.settings if each.is_needed} <= given.keys()
        assert all(variable.startswith(f"{name.upper()}_") for variable in given)
        assert given[f"{name.upper()}_API_BASE"].startswith(f"{world.platforms.url}/{name}")
        assert FAKES[name].title == manifest.title
        assert world.platforms.fakes[name].faults.target == name

    play(scenario)


@pytest.mark.parametrize("name", PLATFORMS)
def test_ana_and_ben_are_there_and_someone_can_come(play, name):
    async def scenario(world):
        people = (await world.see(f"/control/{name}/people"))["people"]
        assert [each["name"] for each in people] == ["Ana", "Ben"]
        state = (await world.see("/chat/state"))[name]
        direct = [each for each in state["chats"] if each["members"] == [people[0]["id"]]]
        assert len(direct) == 1
        zoe = await world.do(f"/control/{name}/people", {"name": "Zoe"})
        made = await world.do(f"/control/{name}/chats", {"title": "Plans", "members": [zoe["id"]]})
        joined = await world.do(f"/control/{name}/chats/{made['chat']}/members", {"person": people[0]["id"]})
        assert joined == {"chat": made["chat"], "person": people[0]["id"]}
        blocked = await world.do(f"/control/{name}/chats/{made['chat']}/block", {"blocked": True})
        assert blocked["blocked"] is True

    play(scenario)


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_chat_of_the_past_has_the_kind_that_the_page_shows(name):
    module = fakes.module_of(name)
    direct, group = (module.chat_then("77", "Lunch", is_group=each) for each in (False, True))
    assert (direct.platform, direct.id, direct.title) == (name, "77", "Lunch")
    assert direct.kind in ("private", "dm")
    assert group.kind not in ("private", "dm")
