"""The fake Discord: buttons under messages, and presses."""

import json
from pathlib import Path

import apsw
import pytest
from aiohttp import web

from emulator.platforms.discord.calls import DiscordError, components
from emulator.platforms.store import PlatformStore

ANA, BEN, DM, CHANNEL = "80000000000000001", "80000000000000002", "1290000000000000400", "1290000000000000200"
RECORDED = Path(__file__).parents[3] / "events" / "discord" / "040_button.json"


def button(label="Yes", custom_id="7.0", **more):
    return {"type": 2, "style": 2, "label": label, "custom_id": custom_id, **more}


def row(*buttons):
    return {"type": 1, "components": list(buttons)}


ROWS = [row(button(), button("No", "7.1"))]


async def card(world, channel=DM):
    """The id of a message with two buttons."""
    body = {"content": "Shall I?", "components": ROWS}
    status, message = await world.as_bot("POST", f"/channels/{channel}/messages", body)
    assert status == 200
    return message["id"]


async def press(world, message, data="7.0", *, person=ANA, channel=DM):
    return await world.do(
        f"/control/discord/chats/{channel}/messages/{message}/press", {"person": person, "data": data}
    )


def hook(got, path=""):
    return f"/webhooks/{got.body['application_id']}/{got.body['token']}{path}"


async def shown(world, channel=DM):
    """Text, button labels and recipient of every message."""
    messages = (await world.see(f"/control/discord/chats/{channel}"))["messages"]
    return [(m["text"], [key["text"] for keys in m["keyboard"] or () for key in keys], m["only_for"]) for m in messages]


def test_a_press_is_an_interaction_with_the_message_in_it(play):
    async def scenario(world):
        world.endpoint.discord = lambda got: web.json_response({"type": 6})
        message = await card(world, CHANNEL)
        pressed = await press(world, message, "7.1", person=BEN, channel=CHANNEL)
        assert (pressed["kind"], pressed["phase"], pressed["original"]) == ("press", "deferred", message)
        (got,) = world.endpoint.got
        assert got.body["type"] == 3
        assert got.body["data"] == {"component_type": 2, "custom_id": "7.1", "id": 3}
        assert got.body["member"]["user"]["id"] == BEN
        assert got.body["message"]["id"] == message
        assert [each["id"] for each in got.body["message"]["components"][0]["components"]] == [2, 3]
        assert "thinking" not in json.dumps(await shown(world, CHANNEL))

    play(scenario)


def test_after_wait_the_original_is_the_message_with_the_button(play):
    async def scenario(world):
        world.endpoint.discord = lambda got: web.json_response({"type": 6})
        message = await card(world)
        await press(world, message)
        (got,) = world.endpoint.got
        status, edited = await world.discord(
            "PATCH", hook(got, "/messages/@original"), {"content": "Yes, by Ana", "components": []}
        )
        assert (status, edited["id"], edited["components"]) == (200, message, [])
        assert await shown(world) == [("Yes, by Ana", [], None)]

    play(scenario)


def test_a_follow_up_to_a_press_can_be_for_one_person_only(play):
    async def scenario(world):
        world.endpoint.discord = lambda got: web.json_response({"type": 6})
        message = await card(world, CHANNEL)
        await press(world, message, person=BEN, channel=CHANNEL)
        (got,) = world.endpoint.got
        status, said = await world.discord("POST", hook(got), {"content": "Only Ana may.", "flags": 64})
        assert status == 200
        assert await shown(world, CHANNEL) == [("Shall I?", ["Yes", "No"], None), ("Only Ana may.", [], BEN)]
        chats = (await world.see("/control/discord/chats"))["chats"]
        assert next(chat for chat in chats if chat["id"] == CHANNEL)["preview"] == "Shall I?"
        path = f"/channels/{CHANNEL}/messages/{said['id']}"
        assert (await world.as_bot("PATCH", path, {"content": "x"}))[1]["code"] == 10008  # the bot does not see it

    play(scenario)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"type": 7, "data": {"content": "Yes", "components": []}}, [("Yes", [], None)]),
        ({"type": 7, "data": {"content": "Sure?"}}, [("Sure?", ["Yes", "No"], None)]),
        ({"type": 4, "data": {"content": "Hm", "flags": 64}}, [("Shall I?", ["Yes", "No"], None), ("Hm", [], ANA)]),
    ],
)
def test_a_press_can_get_an_immediate_answer(play, answer, expected):
    async def scenario(world):
        world.endpoint.discord = lambda got: web.json_response(answer)
        assert (await press(world, await card(world)))["phase"] == "answered"
        assert await shown(world) == expected

    play(scenario)


def test_a_command_cannot_be_answered_as_a_press(play):
    async def scenario(world):
        world.endpoint.discord = lambda got: web.json_response({"type": 6})
        asked = await world.ask("hello")
        assert (asked["phase"], "types (4, 5, 9) in answer to a command" in asked["error"]) == ("dead", True)

    play(scenario)


def test_a_missing_button_cannot_be_pressed(play):
    async def scenario(world):
        message = await card(world)
        path = f"/control/discord/chats/{DM}/messages"
        for where, body, why in (
            (message, {"person": ANA, "data": "7.9"}, "no button with this data"),
            ("1", {"person": ANA, "data": "7.0"}, "sees no message 1"),
            (message, {"person": BEN, "data": "7.0"}, "Ben is not in channel"),
        ):
            async with world.session.post(f"{world.platforms.url}{path}/{where}/press", json=body) as response:
                assert (response.status, why in (await response.json())["error"]) == (400, True)

    play(scenario)


def test_an_edit_keeps_fields_that_it_does_not_name(play):
    async def scenario(world):
        path = f"/channels/{DM}/messages/{await card(world)}"
        await world.as_bot("PATCH", path, {"content": "Well?"})
        assert await shown(world) == [("Well?", ["Yes", "No"], None)]
        await world.as_bot("PATCH", path, {"components": []})
        assert await shown(world) == [("Well?", [], None)]

    play(scenario)


def test_a_press_can_be_replayed(play):
    async def scenario(world):
        world.endpoint.discord = lambda got: web.json_response({"type": 6})
        pressed = await press(world, await card(world))
        await world.do(f"/control/discord/interactions/{pressed['interaction']}/replay")
        first, second = world.endpoint.got
        assert (first.body["id"], first.body["data"]) == (second.body["id"], second.body["data"])

    play(scenario)


@pytest.mark.parametrize(
    "rows",
    [
        [row()],
        [row(*(button(custom_id=str(number)) for number in range(6)))],
        [row(button())] * 6,
        [row(button(), button("No"))],
        [row(button("x" * 81))],
        [row(button(custom_id=""))],
        [row(button(custom_id="x" * 101))],
        [row(button(style=9))],
        [row({"type": 3, "custom_id": "a"})],
        [button()],
        "rows",
    ],
)
def test_invalid_rows_of_buttons_are_refused(rows):
    with pytest.raises(DiscordError) as caught:
        components({"components": rows})
    assert caught.value.body["code"] == 50035


def test_valid_rows_of_buttons_are_accepted():
    link = {"type": 2, "style": 5, "label": "Look", "url": "https://example.com"}
    rows = [row(*(button("x" * 80, f"{line}.{number}" + "y" * 90) for number in range(5))) for line in range(4)]
    assert components({"components": [*rows, row(link)]}) == [*rows, row(link)]
    assert components({}) == components({"components": None}) == []


def test_a_press_has_the_fields_of_a_recorded_one(play):
    recorded = json.loads(RECORDED.read_text())

    async def scenario(world):
        world.endpoint.discord = lambda got: web.json_response({"type": 6})
        message = await card(world, CHANNEL)
        await press(world, message, channel=CHANNEL)
        (got,) = world.endpoint.got
        assert set(recorded) - set(got.body) == set()
        assert set(recorded["message"]) - set(got.body["message"]) <= {"application_id"}
        assert set(recorded["data"]) == set(got.body["data"])

    play(scenario)


def test_a_file_from_the_first_release_is_upgraded_for_presses(tmp_path):
    path = tmp_path / "platforms.db"
    PlatformStore(path).close()
    with apsw.Connection(str(path)) as conn:
        conn.execute("ALTER TABLE interactions DROP COLUMN custom_id")
    conn.close()
    for _ in range(2):
        store = PlatformStore(path)
        assert store.conn.execute("SELECT custom_id FROM interactions").fetchall() == []
        store.close()
