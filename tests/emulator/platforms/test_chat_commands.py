"""The commands of the terminal chat, against the fakes."""

import asyncio

import pytest
from aiohttp import web

from emulator.cli import chat, chat_events
from emulator.cli.chat_events import ChatEvent

ANA, DM = "5000000001", "1290000000000000400"


def terminal(world, once, platform="telegram", **more):
    options = {"base_url": world.platforms.url, "person": "ana", "once": once, "timeout_s": 0.05, **more}
    return asyncio.to_thread(chat.run_chat, platform, **options)


def test_a_person_sends_files_edits_reacts_replies_and_deletes(play, tmp_path, capsys):
    (tmp_path / "my notes.txt").write_text("one")
    (tmp_path / "a.ogg").write_bytes(b"OggS")

    async def scenario(world):
        await world.platforms.register()
        await terminal(world, "hello")
        await terminal(world, "/edit hello again")
        await world.bot("sendMessage", chat_id=int(ANA), text="hi")
        assert await terminal(world, "/react 👍") == 0  # no reply is needed
        assert await terminal(world, "/react") == 0
        await terminal(world, "/reply thanks")
        await terminal(world, f"/file '{tmp_path}/my notes.txt' don't skip it")
        await terminal(world, f"/voice {tmp_path}/a.ogg")
        got = [update.body for update in await world.endpoint.wait(7)]
        assert got[1]["edited_message"]["text"] == "hello again"
        assert [len(body["message_reaction"]["new_reaction"]) for body in got[2:4]] == [1, 0]
        assert got[4]["message"]["reply_to_message"]["text"] == "hi"
        assert got[5]["message"]["caption"] == "don't skip it"
        assert got[5]["message"]["document"]["file_name"] == "my notes.txt"
        assert "voice" in got[6]["message"]
        assert await terminal(world, "/delete") == 0
        assert (await world.see(f"/chat/telegram/chats/{ANA}"))["messages"][-1]["text"] == "don't skip it"

    play(scenario)
    assert "error" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "code", "why"),
    [
        ("/file", 64, "which file? `/file notes.txt`"),
        ("/file nowhere.txt", 66, "there is no file nowhere.txt"),
        ("/edit x", 66, "you have said nothing here"),
        ("/delete", 66, "you have said nothing here"),
        ("/react 👍", 66, "the bot has said nothing here"),
    ],
)
def test_a_command_that_cannot_be_done_says_why(play, capsys, line, code, why):
    async def scenario(world):
        assert await terminal(world, line) == code
        assert why in capsys.readouterr().err

    play(scenario)


def test_a_topic_is_chosen_by_its_name_and_shows_its_own_messages(play, capsys, monkeypatch):
    monkeypatch.setattr(chat, "QUIET_S", 0.05)

    async def scenario(world):
        made = (await world.do("/chat/telegram/chats", {"title": "Trip", "members": [ANA], "super": True}))["chat"]
        topics = [
            (await world.do("/chat/telegram/topics", {"chat": made, "name": name}))["thread"]
            for name in ("Food", "Talk")
        ]

        def answer(got):
            said = {"method": "sendMessage", "chat_id": int(made), "text": f"in {topics[0]}"}
            return web.json_response({**said, "message_thread_id": topics[0]})

        world.endpoint.telegram = answer
        await world.platforms.register()
        assert await terminal(world, "@postroom_bot soup?", chat="Trip", topic="food", timeout_s=60.0) == 0
        assert capsys.readouterr().out.splitlines()[-1] == f"in {topics[0]}"
        assert await terminal(world, "hello", chat="Trip", topic="Talk") == 75
        assert await terminal(world, "hello", chat="Trip", topic="Wine") == 66
        assert "its topics: Food, Talk" in capsys.readouterr().err

    play(scenario)


def test_a_file_on_discord_is_an_option_of_ask_where_the_app_has_one(play, tmp_path):
    (tmp_path / "a.csv").write_text("one, two")
    names = (("prompt", 3, True), ("file", 11, False))
    options = [{"name": name, "type": kind, "description": name, "required": must} for name, kind, must in names]
    ask = {"name": "ask", "type": 1, "description": "Ask", "options": options}

    async def scenario(world):
        await world.platforms.register()
        app = world.env["DISCORD_APPLICATION_ID"]
        assert (await world.as_bot("PUT", f"/applications/{app}/commands", [ask]))[0] == 200
        await terminal(world, f"/file {tmp_path}/a.csv sum it up", "discord")
        data = (await world.endpoint.wait(1))[0].body["data"]
        assert data["options"][0]["value"] == "sum it up"
        assert [one["filename"] for one in data["resolved"]["attachments"].values()] == ["a.csv"]
        await world.as_bot("PUT", f"/applications/{app}/commands", [])
        await terminal(world, f"/file {tmp_path}/a.csv sum it up", "discord")
        assert (await world.see(f"/chat/discord/chats/{DM}"))["messages"][-1]["files"][0]["name"] == "a.csv"

    play(scenario)


def test_files_and_reactions_of_the_bot_are_printed():
    speaker = chat.Speaker("", "telegram", ANA, "Ana", ANA)
    common = {"platform": "telegram", "chat": ANA, "keyboard": None}
    file = {"kind": "photo", "name": "a.png", "size": 70}
    sent = {**common, "author": {"id": "1", "is_bot": True, "name": "Postroom"}, "text": "look", "files": [file]}
    own = {**common, "author": {"id": ANA, "is_bot": False, "name": "Ana"}, "text": "hello", "reacted": {"👀": ["1"]}}
    assert chat_events._step("message", sent, speaker) == ChatEvent("reply", "[photo a.png, 70 bytes]\nlook")
    assert chat_events._step("message", own, speaker) == ChatEvent("said", "👀 to: hello")
    assert chat_events._step("message", {**own, "reacted": {"👀": [ANA]}}, speaker) is None
