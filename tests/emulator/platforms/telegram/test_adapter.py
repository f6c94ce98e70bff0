"""The Telegram adapter over a real connection against the fake Telegram, which refuses what the real one refuses."""

import aiohttp
import pytest

from shared.channels import registry
from shared.channels.base import Outgoing, OutgoingFile, Part, Poll, WebhookRequest
from shared.channels.telegram import connecting, webhooks
from shared.channels.telegram.channel import TelegramChannel, TelegramSettings
from shared.core.errors import ChatGone, ChatMoved, NotFetched, PermanentError, PlaceGone, WrongState
from shared.runtime.http1_client import HttpClient
from tests.emulator.platforms.conftest import ANA, GROUP, NOW
from tests.emulator.platforms.telegram.pictures import OGG, png

CONTENT = {"photo": ("view.png", "image/png", png()), "voice": ("note.ogg", "audio/ogg", OGG)}
USUAL = ("{}.bin", "application/octet-stream", b"content")


def outgoing(**changes):
    usual = {
        "response_id": 1,
        "part_index": 0,
        "platform_id": ANA,
        "thread_id": None,
        "reply_to": None,
        "context": {},
        "asked_at_ms": NOW,
        "is_first": True,
    }
    return Outgoing(**{**usual, **changes})


@pytest.fixture
def act(play, tmp_path, monkeypatch):
    """Runs a scenario with the adapter, a client of its own, and a maker of files."""

    def run(scenario, **options):
        async def with_adapter(world):
            for name, value in world.env.items():
                monkeypatch.setenv(name, value)
            monkeypatch.setenv("TELEGRAM_WEBHOOK_URL", world.config.webhook_urls["telegram"])
            client = HttpClient()
            try:
                await scenario(world, TelegramChannel(TelegramSettings.load()), client)
            finally:
                await client.close()

        play(with_adapter, **options)

    yield run
    registry.get.cache_clear()


@pytest.fixture
def made(tmp_path):
    def make(kind="document", number=1):
        name, media_type, content = CONTENT.get(kind, USUAL)
        path = tmp_path / f"{kind}{number}"
        path.write_bytes(content)
        return OutgoingFile(path, name.format(number), media_type, len(content), kind)

    return make


async def messages(world, chat=ANA):
    return (await world.see(f"/control/telegram/chats/{chat}"))["messages"]


async def send_all(adapter, client, text, files=(), **changes):
    return [
        await adapter.send(part, outgoing(part_index=index, is_first=not index, **changes), client, now_ms=NOW)
        for index, part in enumerate(adapter.render(text, files))
    ]


def test_files_of_every_kind_arrive(act, made):
    async def scenario(world, adapter, client):
        await world.say("hello")
        for kind in ("photo", "document", "video", "audio", "voice", "animation"):
            (sent,) = await send_all(adapter, client, f"a **{kind}**", [made(kind)])
            shown = (await messages(world))[-1]
            assert (str(shown["id"]), shown["text"]) == (sent.message_id, f"a {kind}")
            assert [file["kind"] for file in shown["files"]] == [kind]

    act(scenario)


def test_many_files_are_albums_and_a_long_text_goes_before_them(act, made):
    async def scenario(world, adapter, client):
        await world.say("hello")
        files = [made("photo", number) for number in range(11)] + [made("document", number) for number in (1, 2)]
        text, *albums = await send_all(adapter, client, "word " * 400, files)
        assert [len(album.also) + 1 for album in albums] == [5, 6, 2]
        shown = await messages(world)
        assert str(shown[1]["id"]) == text.message_id
        ids = [id_ for album in albums for id_ in (album.message_id, *album.also)]
        assert [str(each["id"]) for each in shown[2:]] == ids

    act(scenario)


def test_an_edit_replaces_a_text_a_caption_or_a_file(act, made):
    async def scenario(world, adapter, client):
        await world.say("hello")
        (text,) = await send_all(adapter, client, "first")
        (photo,) = await send_all(adapter, client, "caption", [made("photo")])
        await send_all(adapter, client, "second", edits=text.message_id)
        await send_all(adapter, client, "other **words**", edits=photo.message_id)
        assert [each["text"] for each in (await messages(world))[1:]] == ["second", "other words"]
        await send_all(adapter, client, "now a file", [made("document")], edits=photo.message_id)
        last = (await messages(world))[-1]
        assert (last["text"], [file["kind"] for file in last["files"]]) == ("now a file", ["document"])
        (again,) = await send_all(adapter, client, "other words", edits="999")
        assert again.message_id == str((await messages(world))[-1]["id"])

    act(scenario)


def test_reactions_typing_and_drafts_are_taken(act):
    async def scenario(world, adapter, client):
        said = await world.say("hello")
        await adapter.react("✅", str(said["message_id"]), outgoing(), client)
        assert (await messages(world))[0]["reactions"]
        await adapter.react(None, str(said["message_id"]), outgoing(), client)
        await adapter.typing(outgoing(), client)
        await adapter.draft("so **far", 31337, outgoing(), client)
        called = [call["method"] for call in (await world.see("/control/telegram/calls"))["calls"]]
        assert called[-4:] == ["setMessageReaction", "setMessageReaction", "sendChatAction", "sendMessageDraft"]
        with pytest.raises(PermanentError):
            await adapter.react("👍", "999", outgoing(), client)

    act(scenario)


def test_a_file_of_a_person_is_fetched_up_to_the_limit(act):
    async def scenario(world, adapter, client):
        await world.platforms.register()
        form = aiohttp.FormData({"person": ANA, "text": "look", "kinds": "[]"})
        form.add_field("file", png(), filename="a.png", content_type="image/png")
        async with world.session.post(f"{world.platforms.url}/chat/telegram/say", data=form) as response:
            assert response.status == 201, await response.text()
        (got,) = await world.endpoint.wait(1)
        secret = {"x-telegram-bot-api-secret-token": world.env["TELEGRAM_WEBHOOK_SECRET"]}
        (event,) = adapter.receive(WebhookRequest("POST", {}, secret, got.raw), now_ms=NOW).events
        (photo,) = event.attachments
        assert await adapter.fetch(photo, client, limit_bytes=1 << 20) == png()
        with pytest.raises(NotFetched, match="larger"):
            await adapter.fetch({**photo, "size": None}, client, limit_bytes=10)
        with pytest.raises(NotFetched):
            await adapter.fetch({"kind": "photo", "file_id": "AgAC" + "x" * 20}, client, limit_bytes=1 << 20)

    act(scenario)


def test_a_chat_a_topic_or_a_person_that_is_gone_has_its_error(act, made):
    async def scenario(world, adapter, client):
        await world.say("hello")
        with pytest.raises(ChatGone, match="chat not found"):
            await send_all(adapter, client, "anybody?", platform_id="777")
        with pytest.raises(PlaceGone):
            await send_all(adapter, client, "x", [made("photo")], thread_id="99")
        await world.do(f"/control/telegram/chats/{ANA}/block", {})
        with pytest.raises(ChatGone, match="blocked"):
            await send_all(adapter, client, "x", [made("photo")])

    act(scenario)


def test_a_group_that_moved_names_its_new_id(act):
    async def scenario(world, adapter, client):
        moved = await world.do(f"/control/telegram/chats/{GROUP}/migrate")
        with pytest.raises(ChatMoved) as caught:
            await send_all(adapter, client, "hello", platform_id=GROUP)
        assert caught.value.new_platform_id.startswith("-100")
        assert caught.value.new_platform_id in str(moved)

    act(scenario)


def test_it_connects_with_the_fake(act):
    async def scenario(world, adapter, client):
        url = world.config.webhook_urls["telegram"]
        menu = {"clear": "Start afresh"}
        await world.bot("setWebhook", url="https://other.example.org/hook")
        with pytest.raises(WrongState, match="connected elsewhere"):
            await connecting.connect(adapter, client, url=url, take_over=False, menu=menu)
        world.clock.advance(2000)
        done = await connecting.connect(adapter, client, url=url, take_over=True, menu=menu)
        assert (done.registration.is_ours, done.registration.missing, done.new_commands) == (True, (), ("clear",))
        info = (await world.bot("getWebhookInfo"))["result"]
        assert set(webhooks.UPDATES) == set(info["allowed_updates"])
        world.clock.advance(2000)
        again = await connecting.connect(adapter, client, url=url, take_over=False, menu=menu)
        assert again.new_commands == ()

    act(scenario)


def test_a_poll_arrives_in_a_topic_that_the_bot_made(act):
    async def scenario(world, adapter, client):
        await world.say("hello")
        topic = await adapter.make_topic("Plans", outgoing(), client)
        poll = Poll("Lunch?", ("Pizza", "Noodles"), is_multiple=True, hours=2)
        to = outgoing(thread_id=topic, poll=poll)
        await adapter.send(Part("Lunch?"), to, client, now_ms=NOW)
        shown = (await messages(world))[-1]
        assert (shown["text"], str(shown["thread"])) == ("Poll: Lunch?\n- Pizza\n- Noodles", topic)
        with pytest.raises(PermanentError, match="not a forum"):
            await adapter.make_topic("Plans", outgoing(platform_id=GROUP), client)

    act(scenario)
