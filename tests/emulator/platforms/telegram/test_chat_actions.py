"""What people do in a chat besides writing: albums, deletions, topics, the stop button of a draft."""

import json

import aiohttp
import pytest

ANA, BEN, GROUP = "5000000001", "5000000002", "-4001002003"
PNG = b"\x89PNG\r\n\x1a\n"


async def upload(world, *files, kinds=(), platform="telegram", **fields):
    """Send files as the page does; status and answer."""
    form = aiohttp.FormData(quote_fields=False)
    for name, value in {"person": ANA, "text": "", **fields}.items():
        form.add_field(name, value)
    form.add_field("kinds", json.dumps(kinds))
    for name, mime, data in files:
        form.add_field("file", data, filename=name, content_type=mime)
    async with world.session.post(f"{world.platforms.url}/chat/{platform}/say", data=form) as response:
        return response.status, await response.json()


async def refused(world, path, body):
    async with world.session.post(f"{world.platforms.url}/chat/telegram/{path}", json=body) as response:
        assert response.status == 400
        return (await response.json())["error"]


def test_pictures_become_one_album_and_a_document_stands_alone(play):
    async def scenario(world):
        await world.platforms.register()
        pictures = [(f"{name}.png", "image/png", PNG + name.encode()) for name in "ab"]
        await upload(world, *pictures, ("plan.pdf", "application/pdf", b"%PDF-"), text="look")
        got = [update.body["message"] for update in await world.endpoint.wait(3)]
        assert [message.get("caption") for message in got] == ["look", None, None]
        assert "text" not in got[0]
        assert got[0]["media_group_id"] == got[1]["media_group_id"]
        assert "media_group_id" not in got[2]
        assert [message["photo"][-1]["file_size"] for message in got[:2]] == [9, 9]
        assert (got[2]["document"]["file_name"], got[2]["document"]["mime_type"]) == ("plan.pdf", "application/pdf")
        shown = (await world.see(f"/chat/telegram/chats/{ANA}"))["messages"]
        assert [[file["kind"] for file in message["files"]] for message in shown] == [
            ["photo"],
            ["photo"],
            ["document"],
        ]
        assert shown[0]["album"] == shown[1]["album"] == got[0]["media_group_id"]
        chats = (await world.see("/chat/state"))["telegram"]["chats"]
        assert next(chat["preview"] for chat in chats if chat["id"] == ANA) == "document: plan.pdf"

    play(scenario)


def test_a_sound_is_a_voice_message_if_the_person_says_so(play):
    async def scenario(world):
        await world.platforms.register()
        await upload(world, ("a.ogg", "audio/ogg", b"OggS"), kinds=["voice"])
        (got,) = await world.endpoint.wait(1)
        voice = got.body["message"]["voice"]
        assert (voice["mime_type"], voice["file_size"]) == ("audio/ogg", 4)

    play(scenario)


def test_a_caption_is_shorter_than_a_text(play):
    async def scenario(world):
        status, answer = await upload(world, ("a.png", "image/png", PNG), text="x" * 1025)
        assert (status, "at most 1024 characters under a file" in answer["error"]) == (400, True)

    play(scenario)


def test_only_the_author_edits_and_in_a_group_only_the_author_deletes(play):
    async def scenario(world):
        said = await world.do("/chat/telegram/say", {"person": ANA, "chat": GROUP, "text": "hello"})
        message = {"chat": GROUP, "message": said["message_id"]}
        assert "only the author" in await refused(world, "edit", {**message, "person": BEN, "text": "x"})
        assert "only their own" in await refused(world, "delete", {**message, "person": BEN})
        await world.do("/chat/telegram/edit", {**message, "person": ANA, "text": "hello all"})
        assert await world.texts(chat=GROUP) == ["hello all"]
        await world.do("/chat/telegram/delete", {**message, "person": ANA})
        assert await world.texts(chat=GROUP) == []

    play(scenario)


def test_a_deletion_is_live_and_reaches_no_bot(play):
    async def scenario(world):
        await world.platforms.register()
        await world.do("/chat/telegram/say", {"person": ANA, "text": "hello"})
        news = await world.live_events()
        done = await world.do("/chat/telegram/delete", {"chat": ANA, "message": "1", "person": ANA})
        assert done["update_id"] is None
        gone = await news.until("message", id="1")
        assert "author" not in gone

    play(scenario)


def test_a_topic_is_opened_written_in_and_shown_with_its_name(play):
    async def scenario(world):
        await world.platforms.register()
        made = await world.do("/chat/telegram/chats", {"title": "Trip", "members": [ANA], "super": True})
        place = {"chat": made["chat"]}
        topic = await world.do("/chat/telegram/topics", {**place, "name": "Food"})
        assert topic["thread"] > 1  # 1 is the General topic
        await world.do("/chat/telegram/say", {**place, "person": ANA, "text": "soup", "thread": topic["thread"]})
        got = [update.body for update in await world.endpoint.wait(3)]
        assert got[1]["message"]["forum_topic_created"]["name"] == "Food"
        said = got[2]["message"]
        assert (said["message_thread_id"], said["is_topic_message"]) == (topic["thread"], True)
        shown = await world.see(f"/chat/telegram/chats/{made['chat']}")
        assert shown["chat"]["topics"] == [{"id": topic["thread"], "name": "Food", "is_closed": False}]
        assert "only a supergroup" in await refused(world, "topics", {"chat": GROUP, "name": "Food"})
        assert "1 to 128" in await refused(world, "topics", {**place, "name": " "})

    play(scenario)


def test_the_stop_button_of_a_draft_tells_the_bot(play):
    async def scenario(world):
        await world.platforms.register()
        await world.do("/chat/telegram/stop", {"chat": ANA, "person": ANA, "draft": 7})
        (got,) = await world.endpoint.wait(1)
        stopped = got.body["stopped_message_generation"]
        assert (stopped["chat"]["id"], stopped["draft_id"]) == (int(ANA), 7)

    play(scenario)


@pytest.mark.parametrize("count", [30, 31])
def test_so_many_files_at_once_and_no_more(play, count):
    async def scenario(world):
        status, answer = await upload(world, *[(f"{n}.txt", "text/plain", b"x") for n in range(count)])
        assert (status, "at most 30 files" in answer.get("error", "")) == ((201, False) if count == 30 else (400, True))

    play(scenario)
