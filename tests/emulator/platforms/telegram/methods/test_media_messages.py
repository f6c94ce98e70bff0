"""Albums, captions, and media that replace one another."""

import json

import pytest

from tests.emulator.platforms.telegram.pictures import png
from tests.emulator.platforms.telegram.test_files import refusal, send

ANA = 5000000001


def album(*kinds, **more):
    return json.dumps([{"type": kind, "media": f"attach://f{n}", **more} for n, kind in enumerate(kinds)])


def parts(count):
    return {f"f{n}": (f"{n}.png", png(4, n + 1), "image/png") for n in range(count)}


def test_an_album_is_several_messages_of_one_group(play):
    async def scenario(world):
        await world.say("hello")
        media = json.loads(album("photo", "video", "photo"))
        media[0]["caption"] = "three"
        answer = await send(
            world, "sendMediaGroup", {"media": json.dumps(media), "reply_to_message_id": "1"}, **parts(3)
        )
        sent = answer["result"]
        assert [message["message_id"] for message in sent] == [2, 3, 4]
        assert len({message["media_group_id"] for message in sent}) == 1
        assert [message.get("caption") for message in sent] == ["three", None, None]
        assert [message["reply_to_message"]["text"] for message in sent] == ["hello"] * 3
        assert ["photo" in message for message in sent] == [True, False, True]

    play(scenario)


@pytest.mark.parametrize(
    ("kinds", "why"),
    [
        (["photo"], "there must be 2-10 messages to send as an album"),
        (["photo"] * 11, "too many messages to send as an album"),
        (["photo", "document"], "document can't be mixed with other media types"),
        (["audio", "video"], "audio can't be mixed with other media types"),
        (["photo", "animation"], "can't use the media of the specified type in the album"),
    ],
)
def test_albums_that_are_refused_send_nothing(play, kinds, why):
    async def scenario(world):
        await world.say("hello")
        answer = await send(world, "sendMediaGroup", {"media": album(*kinds)}, **parts(len(kinds)))
        assert refusal(answer)[0] == 400
        assert why in answer["description"]
        assert await world.texts() == ["hello"]

    play(scenario)


def test_one_bad_file_fails_the_whole_album(play):
    async def scenario(world):
        await world.say("hello")
        answer = await send(world, "sendMediaGroup", {"media": album("photo", "photo")}, **parts(1))
        assert refusal(answer) == (400, "file must be non-empty")
        assert await world.texts() == ["hello"]

    play(scenario)


def test_a_caption_is_limited_and_edited(play):
    async def scenario(world):
        await world.say("hello")
        photo = {"photo": ("a.png", png(), "image/png")}
        assert refusal(await send(world, "sendPhoto", {"caption": "a" * 1025}, **photo)) == (
            400,
            "message caption is too long",
        )
        sent = (await send(world, "sendPhoto", {"caption": "a" * 1024}, **photo))["result"]["message_id"]
        edited = await world.bot("editMessageCaption", chat_id=ANA, message_id=sent, caption="short")
        assert edited["result"]["caption"] == "short"
        again = await world.bot("editMessageCaption", chat_id=ANA, message_id=sent, caption="short")
        assert "message is not modified" in again["description"]
        answer = await world.bot("editMessageText", chat_id=ANA, message_id=sent, text="x")
        assert refusal(answer) == (400, "there is no text in the message to edit")
        text = (await world.bot("sendMessage", chat_id=ANA, text="x"))["result"]["message_id"]
        answer = await world.bot("editMessageCaption", chat_id=ANA, message_id=text, caption="x")
        assert refusal(answer) == (400, "there is no caption in the message to edit")

    play(scenario)


def test_media_replace_media_of_their_family_in_an_album(play):
    async def scenario(world):
        await world.say("hello")
        sent = (await send(world, "sendMediaGroup", {"media": album("photo", "photo")}, **parts(2)))["result"]
        new = {"chat_id": str(ANA), "message_id": str(sent[0]["message_id"])}
        pdf = ("a.pdf", b"%PDF", "application/pdf")
        answer = await send(
            world, "editMessageMedia", {**new, "media": '{"type": "document", "media": "attach://f"}'}, f=pdf
        )
        assert refusal(answer) == (400, "can't use media of the specified type in the album")
        picture = ("b.png", png(9, 9), "image/png")
        media = '{"type": "photo", "media": "attach://f", "caption": "new"}'
        answer = await send(world, "editMessageMedia", {**new, "media": media}, f=picture)
        assert (answer["result"]["photo"][-1]["width"], answer["result"]["caption"]) == (9, "new")

    play(scenario)


def test_buttons_under_a_message_are_replaced_alone(play):
    async def scenario(world):
        await world.say("hello")
        sent = (await world.bot("sendMessage", chat_id=ANA, text="choose"))["result"]["message_id"]
        buttons = {"inline_keyboard": [[{"text": "Yes", "callback_data": "y"}]]}
        edited = await world.bot("editMessageReplyMarkup", chat_id=ANA, message_id=sent, reply_markup=buttons)
        assert (edited["result"]["reply_markup"], edited["result"]["text"]) == (buttons, "choose")
        again = await world.bot("editMessageReplyMarkup", chat_id=ANA, message_id=sent, reply_markup=buttons)
        assert "message is not modified" in again["description"]
        gone = await world.bot("editMessageReplyMarkup", chat_id=ANA, message_id=sent)
        assert "reply_markup" not in gone["result"]

    play(scenario)
