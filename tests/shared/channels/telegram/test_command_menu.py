"""What Telegram says of a bot's commands, and what is registered."""

import asyncio
import json

import httpx
import pytest

from shared.channels.telegram import command_menu
from tests.fake_client import FakeClient


@pytest.mark.parametrize("found", [None, {}, [{"description": "no name"}], [1], "text"])
def test_a_malformed_answer_has_no_commands(found):
    assert command_menu.commands_of(found) == {}


def test_no_more_commands_are_registered_than_telegram_takes(telegram):
    sent = []

    def platform(request):
        sent.append(json.loads(request.content))
        return httpx.Response(200, json={"ok": True, "result": True})

    known = {f"other_{number}": "words" for number in range(command_menu.MOST_COMMANDS - 1)}
    menu = {"stop": "Stop", "clear": "Start afresh"}
    new = asyncio.run(command_menu.offer(telegram.api, FakeClient(platform), menu, known))
    assert new == ("stop", "clear")
    assert [each["command"] for each in sent[0]["commands"]] == [*known, "stop"]
