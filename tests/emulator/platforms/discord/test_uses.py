"""What people do with an app on Discord: commands with options, suggestions, menus, selects and forms."""

import json

import aiohttp
import pytest
from aiohttp import web

ANA, BEN, CHANNEL = "80000000000000001", "80000000000000002", "1290000000000000200"
COMMANDS = [
    {"name": "ask", "type": 1, "description": "Ask", "options": [
        {"name": "prompt", "type": 3, "description": "what", "required": True},
        {"name": "agent", "type": 3, "description": "who", "autocomplete": True},
        {"name": "times", "type": 4, "description": "how often"},
        {"name": "friend", "type": 6, "description": "whom"},
        {"name": "file", "type": 11, "description": "a file"},
    ]},
    {"name": "memory", "type": 1, "description": "Memory", "options": [
        {"name": "show", "type": 1, "description": "Show", "options": [
            {"name": "all", "type": 5, "description": "all"}]}]},
    {"name": "Ask about it", "type": 3},
    {"name": "Profile", "type": 2},
]  # fmt: skip
SELECT = {
    "type": 3,
    "custom_id": "tags",
    "options": [{"label": word, "value": word} for word in "abc"],
    "max_values": 2,
}
FORM = {"custom_id": "report", "title": "Report", "components": [
    {"type": 18, "label": "What", "component": {"type": 4, "custom_id": "what", "style": 2}},
    {"type": 18, "label": "Who", "component": {"type": 5, "custom_id": "who"}},
    {"type": 18, "label": "Files", "component": {"type": 19, "custom_id": "files"}},
]}  # fmt: skip


def using(play, scenario):
    async def main(world):
        await world.platforms.register()
        app = world.env["DISCORD_APPLICATION_ID"]
        assert (await world.as_bot("PUT", f"/applications/{app}/commands", COMMANDS))[0] == 200
        await scenario(world)

    play(main)


async def act(world, what, body, status=201):
    place = {"person": ANA, "chat": CHANNEL, **body}
    async with world.session.post(f"{world.platforms.url}/chat/discord/{what}", json=place) as response:
        answer = await response.json()
        assert response.status == status, answer
        return answer


def test_a_command_arrives_with_its_options_in_their_types(play):
    async def scenario(world):
        options = {"prompt": "hello", "times": "3", "friend": BEN}
        await act(world, "say", {"text": "", "command": "ask", "options": options})
        data = (await world.endpoint.wait(1))[0].body["data"]
        assert [(one["name"], one["type"], one["value"]) for one in data["options"]] == [
            ("prompt", 3, "hello"),
            ("times", 4, 3),
            ("friend", 6, BEN),
        ]
        assert data["resolved"]["users"][BEN]["username"] == "ben.k"
        await act(world, "say", {"text": "", "command": "memory show", "options": {"all": "true"}})
        nested = (await world.endpoint.wait(2))[1].body["data"]["options"]
        assert nested == [{"name": "show", "type": 1, "options": [{"name": "all", "type": 5, "value": True}]}]

    using(play, scenario)


@pytest.mark.parametrize(
    ("command", "options", "why"),
    [
        ("ask", {}, 'the option "prompt" is required'),
        ("ask", {"prompt": "x", "times": "many"}, "many is no number"),
        ("ask", {"prompt": "x", "friend": "7"}, "there is no person with the id 7"),
        ("sing", {}, "the app has registered no such command: sing"),
        ("memory forget", {}, "the command has no part forget"),
    ],
)
def test_a_wrong_option_is_refused_before_the_app_hears_of_it(play, command, options, why):
    async def scenario(world):
        refusal = await act(world, "say", {"text": "", "command": command, "options": options}, status=400)
        assert why in refusal["error"]
        assert world.endpoint.got == []

    using(play, scenario)


def test_a_file_is_an_option_with_an_address_that_serves_it(play):
    async def scenario(world):
        form = aiohttp.FormData()
        fields = {"person": ANA, "chat": CHANNEL, "text": "", "command": "ask", "options": '{"prompt": "read"}'}
        for name, value in fields.items():
            form.add_field(name, value)
        form.add_field("file", b"one, two", filename="a.csv", content_type="text/csv")
        async with world.session.post(f"{world.platforms.url}/chat/discord/say", data=form) as response:
            assert response.status == 201, await response.text()
        data = (await world.endpoint.wait(1))[0].body["data"]
        attachment = data["resolved"]["attachments"][data["options"][1]["value"]]
        assert (attachment["filename"], attachment["size"]) == ("a.csv", 8)
        async with world.session.get(attachment["url"]) as response:
            assert await response.read() == b"one, two"

    using(play, scenario)


def test_suggestions_come_while_the_person_types(play):
    async def scenario(world):
        found = [{"name": "The cook", "value": "cook"}]
        world.endpoint.discord = lambda got: web.json_response({"type": 8, "data": {"choices": found}})
        asked = {"command": "ask", "options": {"prompt": "x", "agent": "co"}, "focused": "agent"}
        assert (await act(world, "choices", asked, status=200))["choices"] == found
        (got,) = world.endpoint.got
        assert got.body["type"] == 4
        assert got.body["data"]["options"][1] == {"name": "agent", "type": 3, "value": "co", "focused": True}
        assert await world.texts("discord", CHANNEL) == []
        world.endpoint.discord = lambda got: web.json_response({"type": 4, "data": {"content": "no"}})
        assert "not with suggestions" in (await act(world, "choices", asked, status=400))["error"]

    using(play, scenario)


def test_the_menu_of_a_message_and_of_a_person(play):
    async def scenario(world):
        said = (await act(world, "say", {"text": "compare these", "plain": True}))["message"]
        await act(world, "menu", {"command": "Ask about it", "message": said, "person": BEN})
        data = (await world.endpoint.wait(1))[0].body["data"]
        assert (data["type"], data["target_id"]) == (3, said)
        assert data["resolved"]["messages"][said]["content"] == "compare these"
        await act(world, "menu", {"command": "Profile", "target": ANA, "person": BEN})
        data = (await world.endpoint.wait(2))[1].body["data"]
        assert (data["type"], data["target_id"], list(data["resolved"]["users"])) == (2, ANA, [ANA])

    using(play, scenario)


def test_a_select_sends_the_chosen_values(play):
    async def scenario(world):
        row = {"type": 1, "components": [SELECT]}
        status, sent = await world.as_bot(
            "POST", f"/channels/{CHANNEL}/messages", {"content": "?", "components": [row]}
        )
        assert status == 200
        chosen = {"message": sent["id"], "data": "tags", "values": ["a", "c"]}
        for values, why in ((["a", "b", "c"], "choose 1 to 2"), (["z"], "no such value")):
            assert why in (await act(world, "select", {**chosen, "values": values}, status=400))["error"]
        await act(world, "select", chosen)
        got = (await world.endpoint.wait(1))[0].body
        assert (got["type"], got["data"]["component_type"], got["data"]["values"]) == (3, 3, ["a", "c"])
        shown = (await world.see(f"/chat/discord/chats/{CHANNEL}"))["messages"][0]["keyboard"]
        assert (shown[0][0]["select"], shown[0][0]["max_values"]) == ("options", 2)

    using(play, scenario)


def test_a_form_opens_for_one_person_and_comes_back_filled(play):
    async def scenario(world):
        def answer(got):
            return web.json_response({"type": 9, "data": FORM} if got.body["type"] == 2 else {"type": 5})

        world.endpoint.discord = answer
        news = await world.live_events()
        await act(world, "say", {"text": "", "command": "ask", "options": {"prompt": "report"}})
        opened = await news.until("modal")
        assert (opened["title"], opened["person"], opened["chat"]) == ("Report", ANA, CHANNEL)
        values = {"what": "it breaks", "who": [BEN]}
        wrong = {"interaction": opened["interaction"], "values": values, "person": BEN}
        assert "opened no form for this person" in (await act(world, "submit", wrong, status=400))["error"]
        form = aiohttp.FormData()
        fields = {"person": ANA, "interaction": opened["interaction"], "values": json.dumps(values)}
        for name, value in fields.items():
            form.add_field(name, value)
        form.add_field("file", b"trace", filename="log.txt", content_type="text/plain")
        async with world.session.post(f"{world.platforms.url}/chat/discord/submit", data=form) as response:
            assert response.status == 201, await response.text()
        got = (await world.endpoint.wait(2))[1].body
        what, who, files = (each["component"] for each in got["data"]["components"])
        assert (got["type"], got["data"]["custom_id"], what["value"], who["values"]) == (
            5,
            "report",
            "it breaks",
            [BEN],
        )
        (attachment,) = got["data"]["resolved"]["attachments"].values()
        assert (files["values"], attachment["filename"]) == ([attachment["id"]], "log.txt")

    using(play, scenario)


@pytest.mark.parametrize("change", [{"title": "x" * 46}, {"title": ""}, {"custom_id": ""}, {"components": []}])
def test_a_form_that_discord_would_refuse_ends_the_interaction(play, change):
    async def scenario(world):
        world.endpoint.discord = lambda got: web.json_response({"type": 9, "data": {**FORM, **change}})
        news = await world.live_events()
        await act(world, "say", {"text": "", "command": "ask", "options": {"prompt": "report"}})
        dead = await news.until("delivery", state="dropped")
        assert "Must be between" in dead["error"]

    using(play, scenario)


def test_people_edit_and_delete_only_their_own_plain_messages(play):
    async def scenario(world):
        said = (await act(world, "say", {"text": "hello", "plain": True}))["message"]
        assert (
            "only their own" in (await act(world, "edit", {"message": said, "person": BEN, "text": "x"}, 400))["error"]
        )
        await act(world, "edit", {"message": said, "text": "hello all"})
        await act(world, "react", {"message": said, "person": BEN, "emoji": "👍"})
        shown = (await world.see(f"/chat/discord/chats/{CHANNEL}"))["messages"][0]
        assert (shown["text"], shown["reacted"]) == ("hello all", {"👍": [BEN]})
        await act(world, "delete", {"message": said})
        assert await world.texts("discord", CHANNEL) == []
        await act(world, "say", {"text": "a command"})
        asked = (await world.see(f"/chat/discord/chats/{CHANNEL}"))["messages"][0]["id"]
        assert "can't be edited" in (await act(world, "edit", {"message": asked, "text": "x"}, 400))["error"]

    using(play, scenario)


def test_a_thread_is_opened_from_a_message_and_written_in(play):
    async def scenario(world):
        said = (await act(world, "say", {"text": "soup", "plain": True}))["message"]
        made = await act(world, "threads", {"name": "Soup", "message": said})
        assert made["chat"] == said
        await act(world, "say", {"chat": made["chat"], "text": "with beans?"})
        got = (await world.endpoint.wait(1))[0].body
        assert (got["channel"]["type"], got["channel"]["parent_id"], got["channel"]["owner_id"]) == (11, CHANNEL, ANA)
        for body, why in (
            ({"name": "Soup", "message": said}, "a thread already"),
            ({"name": " "}, "1 to 100"),
            ({"name": "x", "message": "7"}, "there is no message 7"),
            ({"name": "x", "chat": made["chat"]}, "only a channel"),
        ):
            assert why in (await act(world, "threads", body, status=400))["error"]

    using(play, scenario)


def test_the_emulator_registers_postrooms_own_commands_unless_somebody_did(play):
    async def scenario(world):
        await world.platforms.offer_commands()
        shown = (await world.see(f"/chat/discord/chats/{CHANNEL}"))["commands"]
        assert [command["name"] for command in shown] == [each["name"] for each in COMMANDS]
        menu = (await world.bot("getMyCommands"))["result"]
        assert [each["command"] for each in menu] == ["stop", "clear", "forget", "why"]
        await world.as_bot("PUT", f"/applications/{world.env['DISCORD_APPLICATION_ID']}/commands", [])
        world.platforms._store.conn.execute("DELETE FROM meta WHERE key = 'discord.commands'")
        await world.platforms.offer_commands()
        shown = (await world.see(f"/chat/discord/chats/{CHANNEL}"))["commands"]
        assert [command["name"] for command in shown][:2] == ["ask", "stop"]

    using(play, scenario)
