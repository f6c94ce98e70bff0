"""Approvals on Discord, from outside: a card in a direct chat that must be opened first, presses, and their results."""

import json
from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from tests.e2e.conftest import System, until
from tests.emulator.harness import copy_project

pytestmark = [pytest.mark.e2e, pytest.mark.long]

ANA, BEN = "80000000000000001", "80000000000000002"
CHANNEL = "1290000000000000200"
MAYDAY = "the reactor hums"


def do(house: System, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """A person does something on Discord; the answer of the fake."""
    status, answer = house.post(f"/control/discord{path}", body, "platforms")
    assert status in (200, 201), answer
    return dict(answer)


def ask(house: System, person: str, prompt: str, channel: str | None = None) -> dict[str, Any]:
    return do(house, f"/users/{person}/ask", {"prompt": prompt, "channel": channel})


def press(house: System, card: dict[str, Any], person: str, label: str) -> dict[str, Any]:
    (data,) = (key["callback_data"] for row in card["keyboard"] for key in row if key["text"] == label)
    return do(house, f"/chats/{card['chat']}/messages/{card['id']}/press", {"person": person, "data": data})


def said(house: System, channel: str) -> list[dict[str, Any]]:
    """The messages of the bot in the channel, as they read now."""
    _, found = house.get(f"/control/discord/chats/{channel}", "platforms")
    return [each for each in found["messages"] if each["author"]["is_bot"]]


def hears(house: System, channel: str, text: str) -> dict[str, Any]:
    found = until(
        f"{text!r} in channel {channel}, where there was: {[each['text'] for each in said(house, channel)]}",
        lambda: [each for each in said(house, channel) if text in each["text"]],
    )
    return found[-1]


def direct_of(house: System, person: str) -> str:
    """The channel of this person's direct messages, as soon as it exists."""

    def found() -> list[str]:
        _, all_ = house.get("/control/discord/chats", "platforms")
        return [chat["id"] for chat in all_["chats"] if chat["kind"] == "dm" and chat["members"] == [person]]

    return until(f"direct messages of {person}", found)[0]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """#general asks about strangers; the owner is Zoe, who has never written to the bot."""
    folder = tmp_path_factory.mktemp("discord")
    running = System(folder / "state", project=copy_project(folder / "project"))
    running.start()
    try:
        chat = {"channel": "discord", "platformId": CHANNEL, "isGroup": True, "senderPolicy": "request_approval"}
        row = running.call("POST", "/api/chats", chat)["chat"]["id"]
        running.call("PUT", f"/api/chats/{row}/wirings/assistant", {})
        running.zoe = do(running, "/people", {"name": "Zoe"})["id"]  # type: ignore[attr-defined]
        who = {"channel": "discord", "senderId": running.zoe, "name": "Zoe"}  # type: ignore[attr-defined]
        running.call("PUT", f"/api/users/{running.call('POST', '/api/users', who)['user']['id']}/roles/owner")
        yield running
    finally:
        running.stop()


def test_a_stranger_is_answered_after_a_yes(house: System) -> None:
    zoe = house.zoe  # type: ignore[attr-defined]
    asked = ask(house, BEN, MAYDAY, CHANNEL)
    assert asked["phase"] in ("deferred", "answered"), asked

    direct = direct_of(house, zoe)
    card = hears(house, direct, MAYDAY)
    labels = [key["text"] for row in card["keyboard"] for key in row]
    assert len(labels) == 2
    assert house.query("SELECT platform_id, opens_for FROM chats WHERE platform_id = ?", direct) == [(direct, None)]
    waits = until("an answer to Ben at once", lambda: [e for e in said(house, CHANNEL) if e["state"] != "thinking"])
    assert MAYDAY not in waits[0]["text"]

    pressed = press(house, card, zoe, labels[0])
    assert (pressed["state"], pressed["status"]) == ("delivered", 200)

    changed = until(
        "the card changed", lambda: [e for e in said(house, direct) if e["id"] == card["id"] and not e["keyboard"]]
    )
    assert "Zoe" in changed[0]["text"]
    hears(house, CHANNEL, MAYDAY)
    ask(house, BEN, "and once more", CHANNEL)
    hears(house, CHANNEL, "and once more")
    assert [each for each in said(house, CHANNEL) if each["state"] == "thinking"] == []


def test_only_the_person_who_may_not_decide_sees_the_refusal(house: System) -> None:
    """A card can't be forwarded, but another message can carry the token of its button."""
    ask(house, ANA, "let me in", CHANNEL)
    card = hears(house, direct_of(house, house.zoe), "let me in")  # type: ignore[attr-defined]
    data = card["keyboard"][0][0]["callback_data"]
    forged = bot_says(house, CHANNEL, data)

    press(house, forged, BEN, "Mine")

    told = hears(house, CHANNEL, "may decide this")
    assert (told["is_ephemeral"], told["only_for"]) == (True, BEN)
    (status,) = house.query("SELECT status FROM approvals WHERE approval_id = ?", data.partition(".")[0])
    assert status == ("pending",)


def test_a_code_comes_with_the_command_and_is_stored_nowhere(house: System) -> None:
    """All text on Discord comes with /ask."""
    say = house.call("POST", "/api/pairings", {"grants": "admin"})["say"]

    ask(house, ANA, say)

    until("the admin", lambda: house.query("SELECT 1 FROM user_roles WHERE role = 'admin'"))
    secret = say.removeprefix("/start ")
    tables = [name for (name,) in house.query("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    assert [table for table in tables if secret in repr(house.query(f"SELECT * FROM {table}"))] == []
    direct = direct_of(house, ANA)
    until("an answer", lambda: [e for e in said(house, direct) if e["state"] != "thinking" and "admin" in e["text"]])


def bot_says(house: System, channel: str, data: str) -> dict[str, Any]:
    """A message of the bot with a button whose token is *data*."""
    conn = apsw.Connection(str(house.state / "postroom.db"))
    conn.set_busy_timeout(5000)
    conn.execute(
        "INSERT INTO responses (message_id, channel, chat_id, platform_id, sender, message, content, created_at)"
        " SELECT 'proactive_forged00', channel, id, platform_id, '', 'press me', ?, 0"
        "   FROM chats WHERE platform_id = ?",
        (json.dumps({"buttons": [["Mine", data]]}), channel),
    )
    conn.close()
    return hears(house, channel, "press me")


def test_marks_that_are_open_when_everything_is_killed_are_taken_away(house: System) -> None:
    """Of a message that waited, by its answer; of a turn that ran and is cancelled afterwards, by an empty end."""
    zoe = house.zoe  # type: ignore[attr-defined]
    ask(house, zoe, "before the power cut")
    direct = direct_of(house, zoe)
    hears(house, direct, "You said: before the power cut")

    def thinking(channel: str) -> list[dict[str, Any]]:
        return [each for each in said(house, channel) if each["state"] == "thinking"]

    ask(house, zoe, "!slow 600 nobody waits for this", CHANNEL)
    until("the turn", lambda: house.query("SELECT 1 FROM messages WHERE status = 'processing'"))
    ask(house, zoe, "after the power cut")
    assert (len(thinking(CHANNEL)), len(thinking(direct))) == (1, 1)
    house.kill()

    house.start()
    ((slow,),) = house.query("SELECT message_id FROM messages WHERE message LIKE '!slow 600%'")
    house.call("POST", f"/api/messages/{slow}/cancel")

    hears(house, direct, "You said: after the power cut")
    until("no mark", lambda: not thinking(CHANNEL) and not thinking(direct))
    assert not [each for each in said(house, CHANNEL) if "nobody waits" in each["text"]]
