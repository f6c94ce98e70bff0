"""Buttons and groups in the terminal chat."""

import asyncio

from aiohttp import web

from emulator.cli import chat
from tests.emulator.platforms.terminals import ANA, CHANNEL, DM, replying, terminal

KEYS = {"inline_keyboard": [[{"text": "Yes", "callback_data": "7.0"}, {"text": "No", "callback_data": "7.1"}]]}
GROUP, BEN = "-4001002003", "5000000002"


def test_buttons_are_numbered_and_pressed_by_number(play, capsys, monkeypatch):
    monkeypatch.setattr(chat, "QUIET_S", 0.05)

    def answer(got):
        if "callback_query" in got.body:
            said = {"method": "editMessageText", "chat_id": ANA, "message_id": 2, "text": "It is no."}
        else:
            said = {"method": "sendMessage", "chat_id": ANA, "text": "Shall I?", "reply_markup": KEYS}
        return web.json_response(said)

    async def scenario(world):
        world.endpoint.telegram = answer
        await world.platforms.register()
        assert await terminal(world) == 0
        assert capsys.readouterr().out == "Shall I?\n[1] Yes  [2] No  (/press 1)\n"
        assert await terminal(world, once="/press 3") == 66
        there = "  1.  Shall I?  [1] Yes  [2] No\n"
        said = f"error: there is no button 1.3. The buttons, the latest first:\n{there}"
        assert capsys.readouterr().err == said
        for once in ("/press", "/press x", "/press 1.", "/press 0"):
            assert await terminal(world, once=once) == 64
            said = capsys.readouterr().err
            assert (said.startswith("error: which button? "), said.endswith(f":\n{there}")) == (True, True)
        assert await terminal(world, once="/press 2") == 0
        assert capsys.readouterr().out == "It is no.\n"
        assert world.endpoint.got[-1].body["callback_query"]["data"] == "7.1"
        assert await terminal(world, once="/press 1") == 66
        assert "no message here has one" in capsys.readouterr().err

    play(scenario)


def test_buttons_under_an_older_message_are_pressed_by_a_number_counted_back(play, capsys, monkeypatch):
    monkeypatch.setattr(chat, "QUIET_S", 0.05)

    async def scenario(world):
        await world.platforms.register()
        await world.say("hello")
        for number, text in enumerate(("First?", "Second?", "no buttons"), 1):
            keys = [[{"text": word, "callback_data": f"{number}.{word}"} for word in ("Yes", "No")]]
            markup = {"reply_markup": {"inline_keyboard": keys}} if number < 3 else {}
            await world.bot("sendMessage", chat_id=int(ANA), text=text, **markup)
        for count, (once, data) in enumerate(
            (("/press 1", "2.Yes"), ("/press 1.2", "2.No"), ("/press 2.1", "1.Yes"), ("/press 2.2", "1.No")), 2
        ):
            assert await terminal(world, once=once, timeout_s=0.1) == 75
            assert (await world.endpoint.wait(count))[-1].body["callback_query"]["data"] == data
        capsys.readouterr()
        assert await terminal(world, once="/press 3.1") == 66
        lines = capsys.readouterr().err.splitlines()
        assert lines[1:] == ["  1.  Second?  [1] Yes  [2] No", "  2.  First?  [1] Yes  [2] No"]

    play(scenario)


def test_a_notice_reaches_only_the_person_who_pressed(play, capsys, monkeypatch):
    monkeypatch.setattr(chat, "QUIET_S", 0.05)

    def answer(got):
        press = got.body["callback_query"]
        return web.json_response(
            {
                "method": "answerCallbackQuery",
                "callback_query_id": press["id"],
                "text": "Not yours.",
                "show_alert": True,
            }
        )

    async def scenario(world):
        world.endpoint.telegram = answer
        await world.platforms.register()
        await world.bot("sendMessage", chat_id=int(GROUP), text="Shall I?", reply_markup=KEYS)
        news = await world.live_events()
        assert await terminal(world, person="ben", once="/press 1", chat="lunch group") == 0
        assert capsys.readouterr().out == "Not yours.\n"
        told = await news.until("notice")
        assert (told["chat"], told["person"], told["text"], told["is_alert"]) == (GROUP, BEN, "Not yours.", True)
        assert (await news.until("call", method="answerCallbackQuery"))["chat"] == GROUP

    play(scenario)


def test_buttons_on_discord_are_pressed_the_same_way(play, capsys, monkeypatch):
    monkeypatch.setattr(chat, "QUIET_S", 0.05)

    async def scenario(world):
        await world.platforms.register()
        row = {"type": 1, "components": [{"type": 2, "style": 2, "label": "Yes", "custom_id": "7.0"}]}
        await world.as_bot("POST", f"/channels/{DM}/messages", {"content": "Shall I?", "components": [row]})
        world.endpoint.discord = lambda got: web.json_response(
            {"type": 7, "data": {"content": "It is yes.", "components": []}}
        )
        assert await terminal(world, "discord", once="/press 1") == 0
        assert capsys.readouterr().out == "It is yes.\n"

    play(scenario)


def test_a_message_for_another_person_is_not_printed_and_not_pressed(play, capsys):
    async def scenario(world):
        row = {"type": 1, "components": [{"type": 2, "style": 2, "label": "Yes", "custom_id": "7.0"}]}
        data = {"content": "Only for Ben.", "flags": 64, "components": [row]}
        ben = "80000000000000002"

        def answer(got):
            is_ben = got.body["member"]["user"]["id"] == ben
            return web.json_response({"type": 4, "data": data} if is_ben else {"type": 5})

        world.endpoint.discord = answer
        await world.platforms.register()
        ask = {"prompt": "hello", "channel": CHANNEL}
        await world.do(f"/control/discord/users/{ben}/ask", ask)
        assert await terminal(world, "discord", once="/press 1", chat="#general") == 66
        assert "no message here has one" in capsys.readouterr().err
        talk = asyncio.create_task(terminal(world, "discord", once="hi", chat="#general", timeout_s=1.0))
        await world.endpoint.wait(2)
        await world.do(f"/control/discord/users/{ben}/ask", ask)
        assert await talk == 75
        assert capsys.readouterr().out == ""

    play(scenario)


def test_a_group_is_found_by_its_title(play, capsys, monkeypatch):
    monkeypatch.setattr(chat, "QUIET_S", 0.05)

    async def scenario(world):
        replying(world, "pong")
        await world.platforms.register()
        assert await terminal(world, chat="Lunch group") == 0
        assert capsys.readouterr().out == "pong\n"
        assert world.endpoint.got[-1].body["message"]["chat"]["id"] == int(GROUP)

    play(scenario)
