"""Files on the fake Telegram: uploads are kept and served, and a file_id keeps its bot and its kind."""

import base64
import io

import aiohttp
import pytest

from tests.emulator.platforms.telegram.pictures import OGG, png

ANA = 5000000001


async def send(world, method, fields, **files):
    """Call *method* as multipart; *files* are (name, bytes, type)."""
    form = aiohttp.FormData({"chat_id": str(ANA), **fields})
    for key, (name, data, mime) in files.items():
        form.add_field(key, io.BytesIO(data), filename=name, content_type=mime)
    url = f"{world.env['TELEGRAM_API_BASE']}/bot{world.env['TELEGRAM_BOT_TOKEN']}/{method}"
    async with world.session.post(url, data=form) as response:
        return await response.json()


async def download(world, path, token=None):
    url = f"{world.env['TELEGRAM_API_BASE']}/file/bot{token or world.env['TELEGRAM_BOT_TOKEN']}/{path}"
    async with world.session.get(url) as response:
        return response.status, await response.read()


def of_another_bot(file_id):
    raw = file_id.removeprefix("BQAC")
    kind, _, file = base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)).decode().split(":")
    return "BQAC" + base64.urlsafe_b64encode(f"{kind}:123:{file}".encode()).decode().rstrip("=")


def refusal(answer):
    return answer["error_code"], answer["description"].removeprefix("Bad Request: ")


def test_an_upload_is_kept_and_served(play):
    async def scenario(world):
        await world.say("hello")
        sent = await send(world, "sendDocument", {"caption": "<b>notes</b>", "parse_mode": "HTML"},
                          document=("notes.txt", b"abc", "text/plain"))  # fmt: skip
        result = sent["result"]
        assert (result["caption"], result["caption_entities"][0]["type"], "text" in result) == ("notes", "bold", False)
        document = result["document"]
        assert (document["file_name"], document["mime_type"], document["file_size"]) == ("notes.txt", "text/plain", 3)
        file = (await world.bot("getFile", file_id=document["file_id"]))["result"]
        assert file["file_size"] == 3
        assert await download(world, file["file_path"]) == (200, b"abc")
        await world.restart()
        assert await download(world, file["file_path"]) == (200, b"abc")
        assert (await download(world, file["file_path"], token="1:wrong"))[0] == 401
        assert (await download(world, "documents/missing.txt"))[0] == 404
        again = await world.bot("sendDocument", chat_id=ANA, document=document["file_id"])
        assert again["result"]["document"]["file_unique_id"] == document["file_unique_id"]
        shown = (await world.see(f"/control/telegram/chats/{ANA}"))["messages"][1]["files"]
        assert (shown[0]["name"], shown[0]["size"]) == ("notes.txt", 3)

    play(scenario)


def test_a_persons_file_reaches_the_bot_and_can_be_downloaded(play):
    async def scenario(world):
        await world.platforms.register()
        form = aiohttp.FormData({"person": str(ANA), "text": "look", "kinds": "[]"})
        form.add_field("file", png(), filename="a.png", content_type="image/png")
        async with world.session.post(f"{world.platforms.url}/chat/telegram/say", data=form) as response:
            assert response.status == 201, await response.text()
        (got,) = await world.endpoint.wait(1)
        photo = got.body["message"]["photo"][-1]
        file = (await world.bot("getFile", file_id=photo["file_id"]))["result"]
        assert await download(world, file["file_path"]) == (200, png())

    play(scenario)


def test_a_file_id_keeps_its_kind_and_belongs_to_its_bot(play):
    async def scenario(world):
        await world.say("hello")
        photo = (await send(world, "sendPhoto", {}, photo=("a.png", png(), "image/png")))["result"]["photo"][-1]
        assert (photo["width"], photo["height"]) == (4, 3)
        answer = await world.bot("sendDocument", chat_id=ANA, document=photo["file_id"])
        assert refusal(answer) == (400, "can't use file of type photo as document")
        for unknown in ("nonsense", "BQAC" + "A" * 40, of_another_bot(photo["file_id"])):
            answer = await world.bot("sendPhoto", chat_id=ANA, photo=unknown)
            assert refusal(answer) == (400, "wrong remote file identifier specified: can't unserialize it")
            assert refusal(await world.bot("getFile", file_id=unknown)) == (400, "invalid file_id")

    play(scenario)


@pytest.mark.parametrize(
    ("method", "field", "name", "data", "code", "why"),
    [
        ("sendPhoto", "photo", "a.png", b"", 400, "file must be non-empty"),
        ("sendPhoto", "photo", "a.png", b"no picture", 400, "IMAGE_PROCESS_FAILED"),
        ("sendPhoto", "photo", "a.png", png(9000, 1001), 400, "PHOTO_INVALID_DIMENSIONS"),
        ("sendPhoto", "photo", "a.png", png(2100, 100), 400, "PHOTO_INVALID_DIMENSIONS"),
        ("sendPhoto", "photo", "a.png", png() + b"\0" * (10 << 20), 400,
         f"file of size {len(png()) + (10 << 20)} bytes is too big for a photo; the maximum size is 10485760 bytes"),
        ("sendDocument", "document", "a.bin", b"\0" * ((50 << 20) + 1), 413, "Request Entity Too Large"),
    ],
)  # fmt: skip
def test_uploads_that_are_refused(play, method, field, name, data, code, why):
    async def scenario(world):
        await world.say("hello")
        answer = await send(world, method, {}, **{field: (name, data, "image/png")})
        assert refusal(answer) == (code, why)
        assert len(await world.texts()) == 1

    play(scenario)


def test_what_is_no_upload(play):
    async def scenario(world):
        await world.say("hello")
        for value, why in (
            ("attach://missing", "file must be non-empty"),
            ("https://example.com/a.png", "failed to get HTTP URL content"),
            (None, "there is no photo in the request"),
        ):
            answer = await world.bot("sendPhoto", chat_id=ANA, photo=value)
            assert refusal(answer) == (400, why)

    play(scenario)


def test_a_large_file_is_taken_and_not_given_out(play):
    async def scenario(world):
        await world.say("hello")
        sent = await send(world, "sendDocument", {}, document=("a.bin", b"\0" * ((20 << 20) + 1), "application/zip"))
        answer = await world.bot("getFile", file_id=sent["result"]["document"]["file_id"])
        assert refusal(answer) == (400, "file is too big")

    play(scenario)


def test_a_voice_of_another_format_becomes_a_document(play):
    async def scenario(world):
        await world.say("hello")
        voice = await send(world, "sendVoice", {"duration": "7"}, voice=("v.ogg", OGG, "audio/ogg"))
        assert (voice["result"]["voice"]["duration"], voice["result"]["voice"]["mime_type"]) == (7, "audio/ogg")
        other = await send(world, "sendVoice", {}, voice=("v.wav", b"RIFF", "audio/wav"))
        assert other["result"]["document"]["file_name"] == "v.wav"

    play(scenario)
