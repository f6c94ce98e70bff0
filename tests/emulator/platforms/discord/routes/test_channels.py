"""What a bot reads and writes in channels: messages, files, components, reactions."""

import io
import json

import aiohttp
import pytest

from tests.emulator.platforms.telegram.pictures import png

BEN, CHANNEL = "80000000000000002", "1290000000000000200"
MESSAGES = f"/channels/{CHANNEL}/messages"


async def upload(world, method, path, body, *files, bot=True):
    """Send a multipart body; *files* are (name of the part, file name, bytes, type)."""
    form = aiohttp.FormData()
    form.add_field("payload_json", json.dumps(body), content_type="application/json")
    for part, name, data, mime in files:
        form.add_field(part, io.BytesIO(data), filename=name, content_type=mime)
    headers = {"User-Agent": "DiscordBot (x, 1)"}
    if bot:
        headers["Authorization"] = f"Bot {world.env['DISCORD_BOT_TOKEN']}"
    async with world.session.request(
        method, world.env["DISCORD_API_BASE"] + path, data=form, headers=headers
    ) as answer:
        return answer.status, await answer.json()


async def download(world, url):
    async with world.session.get(url) as response:
        return response.status, await response.read()


def test_files_are_kept_and_served_by_a_signed_address(play):
    async def scenario(world):
        body = {"content": "two", "attachments": [{"id": "1", "filename": "b c.txt", "description": "notes"}]}
        files = [("files[0]", "a.png", png(), "image/png"), ("files[1]", "x.txt", b"abc", "text/plain")]
        status, message = await upload(world, "POST", MESSAGES, body, *files)
        assert status == 200, message
        first, second = message["attachments"]
        assert (first["filename"], first["width"], first["height"], first["content_type"]) == (
            "a.png",
            4,
            3,
            "image/png",
        )
        assert (second["filename"], second["description"], second["size"]) == ("b_c.txt", "notes", 3)
        assert await download(world, first["url"]) == (200, png())
        assert (await download(world, second["url"].replace("hm=", "hm=0")))[0] == 404
        world.clock.advance(25 * 3_600_000)
        assert (await download(world, second["url"]))[0] == 404
        fresh = (await world.as_bot("GET", f"{MESSAGES}/{message['id']}"))[1]["attachments"][1]["url"]
        assert await download(world, fresh) == (200, b"abc")

    play(scenario)


def test_an_edit_keeps_the_attachments_that_it_lists(play):
    async def scenario(world):
        files = [(f"files[{n}]", f"{n}.txt", b"x", "text/plain") for n in range(2)]
        message = (await upload(world, "POST", MESSAGES, {}, *files))[1]
        path, kept = f"{MESSAGES}/{message['id']}", message["attachments"][1]
        edited = (await world.as_bot("PATCH", path, {"content": "new"}))[1]
        assert len(edited["attachments"]) == 2
        body = {"attachments": [{"id": kept["id"]}, {"id": "0"}]}
        edited = (await upload(world, "PATCH", path, body, ("files[0]", "new.txt", b"y", "text/plain")))[1]
        assert [each["filename"] for each in edited["attachments"]] == ["1.txt", "new.txt"]
        refused = await world.as_bot("PATCH", path, {"attachments": [{"id": "77"}]})
        assert (refused[0], refused[1]["code"]) == (400, 50035)
        assert (await world.as_bot("PATCH", path, {"attachments": [], "content": ""}))[1]["code"] == 50006

    play(scenario)


def test_files_that_are_too_large_or_too_many(play):
    async def scenario(world):
        large = ("files[0]", "a.bin", b"\0" * ((10 << 20) + 1), "application/zip")
        status, refusal = await upload(world, "POST", MESSAGES, {}, large)
        assert (status, refusal["code"]) == (413, 40005)
        many = [(f"files[{n}]", f"{n}.txt", b"x", "text/plain") for n in range(11)]
        assert (await upload(world, "POST", MESSAGES, {}, *many))[1]["code"] == 50035
        assert (await upload(world, "POST", MESSAGES, {}, ("file", "x.txt", b"x", "text/plain")))[1]["code"] == 50006
        assert await world.texts("discord", CHANNEL) == []

    play(scenario)


def test_an_answer_to_an_interaction_carries_files(play):
    async def scenario(world):
        await world.ask("picture")
        got = world.endpoint.got[0].body
        path = f"/webhooks/{got['application_id']}/{got['token']}/messages/@original"
        picture = ("files[0]", "a.png", png(), "image/png")
        status, message = await upload(world, "PATCH", path, {"content": "here"}, picture, bot=False)
        assert (status, message["attachments"][0]["filename"], message["content"]) == (200, "a.png", "here")

    play(scenario)


def test_messages_are_read_in_pages(play):
    async def scenario(world):
        ids = [(await world.as_bot("POST", MESSAGES, {"content": str(n)}))[1]["id"] for n in range(6)]
        read = lambda query: world.as_bot("GET", MESSAGES + query)  # noqa: E731
        texts = lambda answer: [message["content"] for message in answer[1]]  # noqa: E731
        assert texts(await read("")) == ["5", "4", "3", "2", "1", "0"]
        assert texts(await read(f"?before={ids[3]}&limit=2")) == ["2", "1"]
        assert texts(await read(f"?after={ids[1]}&limit=2")) == ["3", "2"]
        assert texts(await read(f"?around={ids[3]}&limit=3")) == ["4", "3", "2"]
        assert (await read("?limit=101"))[1]["code"] == 50035
        assert (await world.as_bot("GET", f"{MESSAGES}/1"))[1]["code"] == 10008

    play(scenario, limits=False)


def test_the_use_of_a_command_is_no_message(play):
    async def scenario(world):
        await world.ask("hello", channel=CHANNEL)
        found = (await world.as_bot("GET", MESSAGES))[1]
        assert [message["flags"] for message in found] == [128]  # "thinking…"

    play(scenario)


def test_a_reply_names_its_message_and_pings_its_author_only_if_asked(play):
    async def scenario(world):
        said = await world.do(f"/control/discord/users/{BEN}/message", {"text": "hi", "channel": CHANNEL})
        reference = {"message_id": said["message_id"]}
        answer = (await world.as_bot("POST", MESSAGES, {"content": "yes", "message_reference": reference}))[1]
        assert (answer["type"], answer["referenced_message"]["content"]) == (19, "hi")
        assert [user["id"] for user in answer["mentions"]] == [BEN]
        quiet = {"content": "yes", "message_reference": reference, "allowed_mentions": {"parse": []}}
        assert (await world.as_bot("POST", MESSAGES, quiet))[1]["mentions"] == []

    play(scenario)


def test_reactions_of_several(play):
    async def scenario(world):
        said = await world.do(f"/control/discord/users/{BEN}/message", {"text": "hi", "channel": CHANNEL})
        path = f"{MESSAGES}/{said['message_id']}"
        react = lambda verb, emoji: world.as_bot(verb, f"{path}/reactions/{emoji}/@me")  # noqa: E731
        for emoji in ("👀", "👍🏽", "1️⃣"):
            assert (await react("PUT", emoji))[0] == 204
        for emoji in ("ok", "postroom:77"):
            assert (await react("PUT", emoji))[1]["code"] == 10014
        assert (await react("DELETE", "👍🏽"))[0] == 204
        shown = (await world.as_bot("GET", path))[1]["reactions"]
        assert [(each["emoji"]["name"], each["count"], each["me"]) for each in shown] == [
            ("👀", 1, True),
            ("1️⃣", 1, True),
        ]
        who = (await world.as_bot("GET", f"{path}/reactions/👀"))[1]
        assert [user["id"] for user in who] == [world.env["DISCORD_APPLICATION_ID"]]

    play(scenario, limits=False)


V2 = 1 << 15
PICTURE = {"url": "attachment://a.png"}
BUTTON = {"type": 2, "style": 1, "label": "Go", "custom_id": "go"}
SELECT = {"type": 3, "custom_id": "which", "options": [{"label": "One", "value": "1"}]}
TREE = {
    "flags": V2,
    "components": [
        {"type": 17, "components": [
            {"type": 9, "components": [{"type": 10, "content": "x"}], "accessory": {"type": 11, "media": PICTURE}},
            {"type": 14},
            {"type": 12, "items": [{"media": PICTURE}]},
            {"type": 1, "components": [BUTTON]},
            {"type": 1, "components": [SELECT]},
        ]},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "files", "code"),
    [
        ({"flags": V2, "components": [{"type": 10, "content": "hello"}]}, [], None),
        ({"flags": V2, "content": "x", "components": [{"type": 10, "content": "hello"}]}, [], "LEGACY_FIELDS"),
        ({"flags": V2, "components": [{"type": 10, "content": "a" * 4000}, {"type": 10, "content": "b"}]}, [], "TEXT"),
        ({"flags": V2, "components": [{"type": 13, "file": {"url": "attachment://a.png"}}]}, [], "NOT_FOUND"),
        ({"flags": V2, "components": [{"type": 13, "file": {"url": "attachment://a.png"}}]}, ["a.png"], None),
        ({"flags": V2, "components": [{"type": 10, "content": "x"}] * 41}, [], "LENGTH"),
        (TREE, ["a.png"], None),
        ({"components": [{"type": 10, "content": "hello"}]}, [], "LENGTH"),
        ({"content": "x", "components": "buttons"}, [], "TYPE"),
        ({"content": ["x"]}, [], "TYPE"),
        ({"content": "x", "embeds": [{}] * 11}, [], "LENGTH"),
    ],
)
def test_components_and_other_fields_are_checked(play, body, files, code):
    async def scenario(world):
        parts = [(f"files[{n}]", name, png(), "image/png") for n, name in enumerate(files)]
        status, answer = await upload(world, "POST", MESSAGES, body, *parts)
        assert status == (200 if code is None else 400), answer
        assert code is None or (answer["code"] == 50035 and code in json.dumps(answer["errors"])), answer

    play(scenario)


POLL = {
    "question": {"text": "Lunch?"},
    "answers": [{"poll_media": {"text": "Pizza"}}, {"poll_media": {"text": "Noodles"}}],
    "duration": 2,
}


def test_a_poll_stands_alone_and_the_page_shows_it_in_words(play):
    async def scenario(world):
        status, message = await world.as_bot("POST", MESSAGES, {"poll": POLL})
        assert status == 200, message
        poll = message["poll"]
        assert (message["content"], poll["question"]["text"], poll["allow_multiselect"]) == ("", "Lunch?", False)
        assert [each["poll_media"]["text"] for each in poll["answers"]] == ["Pizza", "Noodles"]
        again = (await world.as_bot("GET", f"{MESSAGES}/{message['id']}"))[1]
        assert again["poll"] == poll
        shown = (await world.see(f"/control/discord/chats/{CHANNEL}"))["messages"][-1]
        assert shown["text"] == "Poll: Lunch?\n- Pizza\n- Noodles"

    play(scenario)


def test_a_poll_with_a_long_answer_is_refused(play):
    async def scenario(world):
        long = {**POLL, "answers": [{"poll_media": {"text": "x" * 56}}]}
        status, refused = await world.as_bot("POST", MESSAGES, {"poll": long})
        assert (status, refused["code"]) == (400, 50035)

    play(scenario)
