"""The terminal chat: what it prints, and how it ends."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from emulator.base import fakes
from emulator.base.errors import EmulatorError
from emulator.base.hints import command_line
from emulator.cli import chat, chat_commands, chat_events
from emulator.cli.chat_commands import Speaker
from emulator.cli.chat_events import ChatEvent
from tests.emulator.platforms.terminals import ANA, DM, replying, terminal


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
                {"base_url": "http://127.0.0.1:9"},
            ),
            (64, f"there is no platform 'pigeon'; choose {fakes.names()}\n", {"platform": "pigeon"}),
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
