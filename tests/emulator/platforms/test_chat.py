"""The server side of the chat page, and the terminal chat that uses it."""

import asyncio
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from emulator.base.errors import EmulatorError
from emulator.base.hints import command_line
from emulator.cli import chat, chat_commands, chat_events
from emulator.cli.chat_commands import Speaker
from emulator.cli.chat_events import ChatEvent

ANA, DM, CHANNEL = "5000000001", "1290000000000000400", "1290000000000000200"


def replying(world, text):
    """The endpoint answers every update with *text* to its chat."""

    def answer(got):
        body = {"method": "sendMessage", "chat_id": got.body["message"]["chat"]["id"], "text": text}
        return web.json_response(body)

    world.endpoint.telegram = answer


@pytest.mark.parametrize("path", ["/chat", "/chat/", "/_emulator/chat", "/_emulator/chat/"])
def test_the_page_embeds_the_first_conversation_with_escaped_markup(play, path):
    async def scenario(world):
        await world.say("</script><script>alert(1)</script>")
        async with world.session.get(world.platforms.url + path) as response:
            page, policy = await response.text(), response.headers["Content-Security-Policy"]
        boot = re.search(r'<script type="application/json" id="boot">(.*?)</script>', page, re.DOTALL)[1]
        shown = json.loads(boot)["transcript"]["messages"]
        assert [message["text"] for message in shown] == ["</script><script>alert(1)</script>"]
        assert policy.startswith("default-src 'none'")
        assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page)  # one file without external resources

    play(scenario)


def test_the_stream_has_messages_deliveries_calls_and_typing(play):
    async def scenario(world):
        replying(world, "pong")
        await world.platforms.register()
        news = await world.live_events()
        await world.do("/_emulator/chat/telegram/say", {"person": ANA, "chat": ANA, "text": "ping"})
        assert (await news.until("message"))["text"] == "ping"
        assert (await news.until("delivery", state="delivered"))["message"] == "1"
        reply = await news.until("message")
        assert (reply["text"], reply["author"]["name"], reply["author"]["is_bot"]) == ("pong", "Postroom", True)
        assert (await news.until("call"))["method"] == "sendMessage"

    play(scenario)


def test_stop_ends_open_streams(play):
    async def scenario(world):
        news = await world.live_events()
        await world.platforms.stop()
        await news.end()
        await world.start()

    play(scenario)


def test_requests_of_other_sites_are_refused(play):
    async def scenario(world):
        said = {"person": ANA, "text": "x"}
        for origin, status in (
            ("https://evil.example", 403),
            ("null", 403),
            ("http://127.0.0.1:8081", 403),
            (world.platforms.url, 201),
        ):
            async with world.session.post(
                world.platforms.url + "/chat/telegram/say", json=said, headers={"Origin": origin}
            ) as response:
                assert response.status == status

    play(scenario)


@pytest.mark.parametrize(
    ("path", "body", "status", "why"),
    [
        ("/chat/telegram/say", {"person": ANA}, 400, '"text" is missing'),
        ("/chat/telegram/say", {"person": ANA, "text": " "}, 400, "the text is empty"),
        ("/chat/telegram/say", {"person": "Ana", "text": "x"}, 400, "a person's id is a positive number"),
        ("/chat/telegram/say", {"person": ANA, "chat": "5000000002", "text": "x"}, 400, "Ana can't write in chat"),
        ("/chat/telegram/say", {"person": ANA, "text": "x" * 4097}, 400, "at most 4096"),
        ("/chat/discord/say", {"person": "1", "text": "x"}, 400, "there is no person with the id 1"),
        ("/control/telegram/chats/77/block", {}, 404, "there is no chat 77"),
        ("/control/telegram/updates", {"rumour": {}}, 400, "one known kind"),
        ("/control/discord/interactions/5/replay", {}, 400, "there is no interaction 5"),
        ("/control/nowhere", {}, 404, "Not Found"),
    ],
)
def test_a_refused_request_says_why(play, path, body, status, why):
    async def scenario(world):
        async with world.session.post(world.platforms.url + path, json=body) as response:
            answer = await response.json()
            assert response.status == status
            assert why in answer["error"]

    play(scenario)


async def answered(message):
    """Something came of every message."""


async def unmeant(message):
    """Nothing came of any."""
    return f"Message {message} was not meant for any agent\x1b[2J."


def test_a_message_of_which_nothing_came_is_told_in_one_dim_line(capsys):
    for prompt, shown in (("> ", ("\r\033[K\033[2m", "\033[0m> ")), ("", ("", ""))):
        steps = asyncio.Queue()
        for step in (ChatEvent("delivered", "7"), None):
            steps.put_nowait(step)
        asyncio.run(chat.ChatScreen(prompt, unmeant).follow(steps))
        before, after = shown
        assert capsys.readouterr().out == f"{before}  Message 7 was not meant for any agent\\x1b[2J.\n{after}"


def test_once_ends_with_the_reason_when_nothing_comes_of_the_message(capsys):
    async def replies(explain, *events):
        steps = asyncio.Queue()
        for event in events:
            steps.put_nowait(event)
        return await chat._replies(steps, 0.05, " Look there.", explain)

    delivered = ChatEvent("delivered", "7")
    assert asyncio.run(replies(unmeant, delivered)) == 75
    assert capsys.readouterr().err == "No reply. Message 7 was not meant for any agent\\x1b[2J. Look there.\n"
    assert asyncio.run(replies(answered, delivered)) == 75
    assert capsys.readouterr().err == "No reply within 0.05 s. Look there.\n"
    assert asyncio.run(replies(unmeant, ChatEvent("reply", "pong"), delivered)) == 0


def test_each_event_is_a_line_of_json_where_that_is_asked_for(capsys):
    async def follow(*events):
        steps = asyncio.Queue()
        for event in (*events, None):
            steps.put_nowait(event)
        await chat.ChatScreen("", unmeant, as_json=True).follow(steps)

    asyncio.run(follow(ChatEvent("reply", "pong\x1b"), ChatEvent("delivered", "7")))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["event"] for each in lines] == ["reply", "trouble"]
    assert lines[0]["text"] == "pong\x1b"


def test_a_delivered_message_of_this_chat_is_an_event():
    speaker = Speaker("", "telegram", ANA, "Ana", "-100")
    news = {"platform": "telegram", "chat": "-100", "kind": "message", "message": "7", "state": "delivered"}
    assert chat_events._step("delivery", news, speaker) == ChatEvent("delivered", "7")
    assert chat_events._step("delivery", {**news, "kind": "callback_query"}, speaker) is None
    assert chat_events._step("delivery", {**news, "state": "pending"}, speaker) is None


def terminal(world, platform="telegram", **more):
    options = {"base_url": world.platforms.url, "person": "ana", "once": "hello", "timeout_s": 60.0, **more}
    return asyncio.to_thread(chat.run_chat, platform, **options)


def test_once_prints_the_reply(play, capsys, monkeypatch):
    monkeypatch.setattr(chat, "QUIET_S", 0.05)

    async def scenario(world):
        replying(world, "pong")
        await world.platforms.register()
        assert await terminal(world) == 0
        assert capsys.readouterr().out == "pong\n"

    play(scenario)


def test_a_full_disk_is_told_and_not_that_the_emulator_does_not_answer(play, capsys):
    async def scenario(world):
        store = world.platforms._store.conn
        store.execute(f"PRAGMA max_page_count={store.pragma('page_count')}")  # as a full disk: SQLITE_FULL
        for number in range(200):
            async with world.session.post(
                f"{world.platforms.url}/chat/telegram/say", json={"person": ANA, "text": f"{number} " + "x" * 4000}
            ) as response:
                if response.status != 201:
                    answer = await response.json()
                    break
        assert (response.status, "disk of the emulator's state is full" in answer["error"]) == (507, True)
        assert await terminal(world, once="x" * 4000) == 1
        said = capsys.readouterr().err
        assert "error: the text was not sent: the fake platforms can't store it: the disk of the emulator's" in said
        store.execute("PRAGMA max_page_count=1000000")

    play(scenario)


@pytest.mark.parametrize(
    "answer", [web.Response(status=500, text="Server got itself in trouble"), web.json_response([])]
)
def test_an_answer_without_a_reason_names_the_log(answer):
    """An answer that is no JSON was once told as none."""

    async def scenario():
        speaker = Speaker("", "telegram", ANA, "Ana", ANA)

        async def refuse(_):
            return answer

        app = web.Application()
        app.router.add_post("/telegram/say", refuse)
        async with TestServer(app) as server, aiohttp.ClientSession() as session:
            root = str(server.make_url("")).rstrip("/")
            with pytest.raises(EmulatorError, match=rf"the emulator answered {answer.status}; its log has the reason"):
                await chat_commands.say(session, replace(speaker, root=root), "hello")

    asyncio.run(scenario())


def test_once_prints_a_deferred_answer_when_it_arrives(play, capsys, monkeypatch):
    monkeypatch.setattr(chat, "QUIET_S", 0.05)

    async def scenario(world):
        await world.platforms.register()
        talk = asyncio.create_task(terminal(world, "discord"))
        (got,) = await world.endpoint.wait(1)
        news = await world.live_events()
        if not (await world.see(f"/control/discord/chats/{DM}"))["messages"][1:]:
            await news.until("message", state="thinking")
        path = f"/webhooks/{got.body['application_id']}/{got.body['token']}/messages/@original"
        assert (await world.discord("PATCH", path, {"content": "pong"}))[0] == 200
        assert await talk == 0
        assert capsys.readouterr().out == "pong\n"

    play(scenario)


def test_a_message_that_changed_before_its_event_was_read_is_printed_once():
    speaker = chat.Speaker("", "discord", "1", "Ana", DM)
    message = {"platform": "discord", "chat": DM, "id": "7", "author": {"name": "Postroom", "is_bot": True}}
    news = [message | {"text": "pong"}, message | {"text": "pong"}, message | {"text": "pong, and more"}]

    async def lines():
        for each in news:
            yield b"event: message\n"
            yield f"data: {json.dumps(each)}\n".encode()

    async def scenario():
        steps = asyncio.Queue()
        await chat_events._read(SimpleNamespace(content=lines()), speaker, steps)
        return [steps.get_nowait() for _ in range(steps.qsize())]

    assert asyncio.run(scenario()) == [ChatEvent("reply", "pong"), ChatEvent("reply", "pong, and more"), None]


def test_once_without_a_reply_says_why_and_exits_with_75(play, capsys):
    async def scenario(world):
        await world.platforms.register()
        assert await terminal(world, timeout_s=0.1) == 75
        said = capsys.readouterr().err
        why = command_line(f"why --platform-id {ANA} --channel telegram")
        assert said == f"No reply within 0.1 s. `{why}` shows what became of the messages of this chat, and why.\n"
        assert await terminal(world, chat="Lunch group", timeout_s=0.1) == 75
        assert "the bot answers only if you mention it, @postroom_bot, or reply to it" in capsys.readouterr().err
        assert await terminal(world, chat="Lunch group", once="@postroom_bot hello", timeout_s=0.1) == 75
        assert "answers only if" not in capsys.readouterr().err
        world.endpoint.discord = lambda got: web.Response(status=500)
        assert await terminal(world, "discord") == 75
        assert "The application did not respond: the endpoint answered 500." in capsys.readouterr().err

    play(scenario)


def test_an_error_of_the_terminal_chat_says_what_is_wrong(play, capsys):
    async def scenario(world):
        for code, said, how in (
            (66, "there is no person 'Zoe' on telegram; choose one of Ana, Ben\n", {"person": "Zoe"}),
            (
                69,
                f"nothing answers at http://127.0.0.1:9; start it with `{command_line('run')}`\n",
                {"base_url": NOBODY},
            ),
            (64, "there is no platform 'pigeon'; choose telegram or discord\n", {"platform": "pigeon"}),
            (66, "Ana is in no chat 'Dinner'; chats with Ana: Lunch group\n", {"chat": "Dinner"}),
            (66, "there is no button to press: no message here has one\n", {"once": "/press"}),
            (
                66,
                "no bot of the fake platforms has the account 'telegram.nobody'; "
                f"`{command_line('accounts list')}` lists the accounts, "
                f"`{command_line('accounts add telegram nobody')}` adds this one\n",
                {"platform": "telegram.nobody"},
            ),
        ):
            assert await terminal(world, **how) == code
            assert capsys.readouterr() == ("", f"error: {said}")

    play(scenario)


def test_an_emulator_that_stops_during_a_chat_is_reported(play, capsys):
    async def scenario(world):
        await world.platforms.register()
        talk = asyncio.create_task(terminal(world))
        await world.endpoint.wait(1)
        await world.platforms.stop()
        assert await talk == 69
        assert capsys.readouterr().err == "error: the emulator stopped during the chat\n"
        await world.start()

    play(scenario)


# -- buttons, and groups ----------------------------------------------------------------------------------------------

KEYS = {"inline_keyboard": [[{"text": "Yes", "callback_data": "7.0"}, {"text": "No", "callback_data": "7.1"}]]}
NOBODY = "http://127.0.0.1:9"
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


HOSTILE = "\x1b[2Jone\x9b31m\u202etwo\n\u2066three"
ESCAPED = r"\x1b[2Jone\x9b31m\u202etwo", r"\u2066three"


def test_once_prints_a_hostile_reply_escaped_with_its_lines(play, capsys, monkeypatch):
    monkeypatch.setattr(chat, "QUIET_S", 0.05)

    async def scenario(world):
        replying(world, HOSTILE)
        await world.platforms.register()
        assert await terminal(world) == 0
        assert capsys.readouterr().out == "\n".join(ESCAPED) + "\n"

    play(scenario)


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("reply", f"  {ESCAPED[0]}\n  {ESCAPED[1]}\n"),
        ("said", f"  {ESCAPED[0]}\n    {ESCAPED[1]}\n"),
        ("trouble", f"  ! {ESCAPED[0]}\n    {ESCAPED[1]}\n"),
    ],
)
def test_nothing_that_is_said_in_a_chat_acts_on_the_terminal(capsys, kind, shown):
    """Only our own line is erased; the lines of another person stand further right than those of a reply."""
    steps = asyncio.Queue()
    for step in (ChatEvent(kind, HOSTILE), None):
        steps.put_nowait(step)
    asyncio.run(chat.ChatScreen("Ana\x1b[2J> ", answered).follow(steps))
    said = capsys.readouterr()
    assert said.out == f"\r\033[K{shown}Ana\\x1b[2J> "
    assert said.err == "\r\033[KThe emulator has stopped.\n"
