"""Our commands at Discord: registered with one call where they differ, and never at the cost of another tool's."""

import asyncio
import json
import re

import httpx
import pytest

from shared.channels.discord import command_list, interactions
from shared.core.errors import PermanentError, TokenRefused, WrongState
from tests.fake_client import FakeClient
from tests.shared.channels.discord.sending import BASE, refusal

APP = "1290000000000000001"
OTHER = {"name": "dice", "type": 1, "description": "Roll", "options": [], "nsfw": False}


class Registry:
    """Discord's list of commands: GET shows it with Discord's own fields, PUT replaces it."""

    def __init__(self, commands=(), app=APP):
        self.commands, self.app = list(commands), app
        self.calls = []

    def __call__(self, request):
        self.calls.append(f"{request.method} {request.url}")
        if request.url.path.endswith("/@me"):
            return httpx.Response(200, json={"id": self.app, "interactions_endpoint_url": "https://x/"})
        if request.method == "PUT":
            self.commands = json.loads(request.content)
        return httpx.Response(200, json=[self._as_shown(each, n) for n, each in enumerate(self.commands)])

    def _as_shown(self, command, number):
        defaults = {"description": "", "default_member_permissions": None, "nsfw": False, "version": "7"}
        return {**defaults, **command, "id": str(number), "application_id": APP}


def register(discord, platform, **options):
    return asyncio.run(command_list.register(discord.api, FakeClient(platform), **options))


@pytest.mark.parametrize("guild", [None, "555"])
def test_the_first_registration_is_one_put_and_the_second_none(discord, guild):
    platform = Registry()
    first = register(discord, platform, guild_id=guild)
    assert (first.is_changed, len(first.difference.new), first.difference.others) == (True, 8, ())
    place = f"/guilds/{guild}" if guild else ""
    assert platform.calls[-1] == f"PUT {BASE}/applications/{APP}{place}/commands"
    platform.calls.clear()
    assert not register(discord, platform, guild_id=guild).is_changed
    assert [call for call in platform.calls if call.startswith("PUT")] == []


def test_commands_of_another_tool_stay_as_they_are(discord):
    platform = Registry([OTHER])
    done = register(discord, platform)
    assert done.difference.others == ("/dice",)
    kept = [each for each in platform.commands if each["name"] == "dice"]
    assert kept == [{**OTHER, "default_member_permissions": None}]


def test_a_command_of_another_tool_with_our_name_is_shown_and_only_overwritten_on_demand(discord):
    theirs = {"name": "ask", "type": 1, "description": "Something else"}
    platform = Registry([theirs, OTHER])
    with pytest.raises(WrongState, match="/ask"):
        register(discord, platform)
    assert platform.commands == [theirs, OTHER]
    done = register(discord, platform, overwrite=True)
    assert done.difference.changed == ("/ask",)
    assert {each["name"] for each in platform.commands} >= {"ask", "dice"}


def test_the_token_of_another_application_registers_nothing(discord):
    platform = Registry(app="42")
    with pytest.raises(PermanentError, match="DISCORD_APPLICATION_ID"):
        register(discord, platform)
    assert len(platform.calls) == 1


def test_a_refused_token_is_said(discord):
    with pytest.raises(TokenRefused):
        register(discord, lambda request: refusal(401, 0))


@pytest.mark.parametrize("guild", [None, "555"])
def test_our_commands_keep_to_discords_limits(guild):
    names = [(each["name"], each["type"]) for each in command_list.wanted(guild)]
    assert len(set(names)) == len(names)
    for each in command_list.wanted(guild):
        if each["type"] == 1:
            assert re.fullmatch(r"[-_a-z0-9]{1,32}", each["name"])
            assert 1 <= len(each["description"]) <= 100
        else:
            assert 1 <= len(each["name"]) <= 32
            assert "description" not in each
        required = [bool(option.get("required")) for option in each.get("options", ())]
        assert required == sorted(required, reverse=True)
        assert ("contexts" in each) == (guild is None)


@pytest.mark.parametrize(
    "changes",
    [
        {"description": "Another"},
        {"options": []},
        {"contexts": [0]},
    ],
)
def test_what_people_see_makes_a_difference_and_discords_own_fields_do_not(changes):
    ours = command_list.wanted(None)
    shown = [{**each, "id": "1", "version": "2", "nsfw": False, "dm_permission": True} for each in ours]
    assert command_list.difference(shown, ours).is_none
    shown[0] |= changes
    assert command_list.difference(shown, ours).changed == ("/ask",)


def test_every_slash_command_of_ours_is_understood():
    slash = {each["name"] for each in command_list.OURS if each["type"] == 1}
    assert slash == {interactions.ASK, *interactions.TYPED}
