"""People, groups and channels that tests create, and the updates that the bot gets."""

import pytest

ANA, BEN = "5000000001", "5000000002"
DISCORD_ANA, DISCORD_BEN = "80000000000000001", "80000000000000002"
DM, CHANNEL = "1290000000000000400", "1290000000000000200"


def refused(answer, status, why):
    return answer[0] == status and why in answer[1]["error"]


async def post(world, path, body):
    """POST; returns status and JSON."""
    async with world.session.post(world.platforms.url + path, json=body) as response:
        return response.status, await response.json()


def test_the_bot_can_write_to_a_new_person_only_after_their_first_message(play):
    """As on the real platform: a bot can't write first."""

    async def scenario(world):
        await world.platforms.register()
        zoe = await world.do("/control/telegram/people", {"name": "Zoé Ruiz"})
        assert zoe["username"] == "zoé_ruiz"
        assert (await world.bot("sendMessage", chat_id=int(zoe["id"]), text="hi"))["error_code"] == 400
        await world.say("hello", zoe["id"])
        (got,) = await world.endpoint.wait(1)
        assert got.body["message"]["from"]["first_name"] == "Zoé Ruiz"
        assert (await world.bot("sendMessage", chat_id=int(zoe["id"]), text="hi"))["ok"]
        people = (await world.see("/control/telegram/people"))["people"]
        assert [person["name"] for person in people] == ["Ana", "Ben", "Zoé Ruiz"]

    play(scenario)


def test_a_group_is_created_with_the_bot_and_people_join_it(play):
    async def scenario(world):
        await world.platforms.register()
        zoe = (await world.do("/control/telegram/people", {"name": "Zoe"}))["id"]
        group = (await world.do("/control/telegram/chats", {"title": "Plans", "members": [ANA, BEN]}))["chat"]
        (got,) = await world.endpoint.wait(1)
        added = got.body["my_chat_member"]
        assert (added["chat"]["title"], added["chat"]["type"], added["from"]["first_name"]) == ("Plans", "group", "Ana")
        assert (added["old_chat_member"]["status"], added["new_chat_member"]["status"]) == ("left", "member")
        await world.do(f"/control/telegram/chats/{group}/members", {"person": zoe})
        chats = (await world.see("/control/telegram/chats"))["chats"]
        assert next(chat for chat in chats if chat["id"] == group)["members"] == [ANA, BEN, zoe]
        path = "/control/telegram/chats"
        assert refused(await post(world, f"{path}/{ANA}/members", {"person": zoe}), 400, "private chat")
        assert refused(await post(world, path, {"title": "Empty"}), 400, "at least one member")
        big = await world.do(path, {"title": "Big", "members": [ANA], "super": True})
        assert big["chat"].startswith("-100")

    play(scenario)


def test_a_group_becomes_a_supergroup_and_both_push_updates(play):
    async def scenario(world):
        await world.platforms.register()
        group = (await world.do("/control/telegram/chats", {"title": "Plans", "members": [ANA]}))["chat"]
        new = (await world.do(f"/control/telegram/chats/{group}/migrate"))["chat"]
        got = await world.endpoint.wait(3)
        moves = {
            key: (update.body["message"]["chat"]["id"], update.body["message"][key])
            for update in got[1:]
            for key in ("migrate_to_chat_id", "migrate_from_chat_id")
            if key in update.body["message"]
        }
        assert moves == {
            "migrate_to_chat_id": (int(group), int(new)),
            "migrate_from_chat_id": (int(new), int(group)),
        }
        sent = await world.bot("sendMessage", chat_id=int(group), text="hi")
        assert sent["parameters"]["migrate_to_chat_id"] == int(new)
        assert (await world.bot("sendMessage", chat_id=int(new), text="hi"))["ok"]
        assert refused(await post(world, f"/control/telegram/chats/{group}/migrate", {}), 400, "it is no group")

    play(scenario)


def test_only_a_member_presses_a_button(play):
    async def scenario(world):
        await world.say("hello")
        keys = {"inline_keyboard": [[{"text": "Yes", "callback_data": "7.0"}]]}
        sent = await world.bot("sendMessage", chat_id=int(ANA), text="Shall I?", reply_markup=keys)
        path = f"/control/telegram/chats/{ANA}/messages/{sent['result']['message_id']}/press"
        assert refused(await post(world, path, {"person": BEN, "data": "7.0"}), 400, "Ben is not in chat")
        assert refused(await post(world, path, {"person": ANA, "data": "7.9"}), 400, "no button with this data")
        assert (await post(world, path, {"person": ANA, "data": "7.0"}))[0] == 201

    play(scenario)


def test_on_discord_the_bot_or_the_first_command_opens_a_direct_channel(play):
    async def scenario(world):
        await world.platforms.register()
        zoe = (await world.do("/control/discord/people", {"name": "Zoe"}))["id"]
        opened = await world.as_bot("POST", "/users/@me/channels", {"recipient_id": zoe})
        again = await world.as_bot("POST", "/users/@me/channels", {"recipient_id": zoe})
        assert (opened[0], opened[1]["type"], opened[1]["id"]) == (200, 1, again[1]["id"])
        asked = await world.do(f"/control/discord/users/{zoe}/ask", {"prompt": "hello"})
        assert asked["chat"] == opened[1]["id"]
        assert (await world.do(f"/control/discord/users/{zoe}/ask", {"prompt": "x", "channel": CHANNEL}))[
            "chat"
        ] == CHANNEL
        await world.do(f"/control/discord/chats/{opened[1]['id']}/block", {"blocked": True})
        status, body = await world.as_bot("POST", f"/channels/{opened[1]['id']}/messages", {"content": "hi"})
        assert (status, body["code"]) == (403, 50007)

    play(scenario)


def test_a_server_gets_another_channel(play):
    async def scenario(world):
        await world.platforms.register()
        made = (await world.do("/control/discord/chats", {"title": "plans", "members": [DISCORD_ANA]}))["chat"]
        refusal = await post(world, f"/control/discord/users/{DISCORD_BEN}/ask", {"prompt": "x", "channel": made})
        assert refused(refusal, 400, "Ben is not in channel")
        await world.do(f"/control/discord/chats/{made}/members", {"person": DISCORD_BEN})
        asked = await world.do(f"/control/discord/users/{DISCORD_BEN}/ask", {"prompt": "x", "channel": made})
        assert asked["chat"] == made
        (got,) = world.endpoint.got
        assert got.body["channel"]["name"] == "plans"
        assert refused(
            await post(world, f"/control/discord/chats/{DM}/members", {"person": DISCORD_BEN}), 400, "no server channel"
        )

    play(scenario)


@pytest.mark.parametrize("platform", ["telegram", "discord"])
def test_people_and_chats_survive_a_restart(play, platform):
    async def scenario(world):
        first = await world.do(f"/control/{platform}/people", {"name": "Zoe"})
        await world.restart()
        second = await world.do(f"/control/{platform}/people", {"name": "Zoe"})
        ids = [person["id"] for person in (await world.see(f"/control/{platform}/people"))["people"]]
        assert first["id"] != second["id"]
        assert {first["id"], second["id"]} <= set(ids)

    play(scenario)


def test_a_reader_gets_what_was_written_after_a_number(play):
    async def scenario(world):
        await world.say("before")
        mark = (await world.see("/control/telegram/chats"))["newest"]
        await world.say("elsewhere", BEN)
        await world.say("first")
        await world.bot("sendMessage", chat_id=int(ANA), text="second")
        found = await world.see(f"/control/telegram/chats/{ANA}?after={mark}")
        assert [(each["text"], each["author"]["is_bot"]) for each in found["messages"]] == [
            ("first", False),
            ("second", True),
        ]
        assert list(found) == ["messages"]
        newest = (await world.see("/control/telegram/chats"))["newest"]
        assert newest == found["messages"][-1]["seq"]
        assert (await world.see(f"/control/telegram/chats/{ANA}?after={newest}"))["messages"] == []
        async with world.session.get(f"{world.platforms.url}/control/telegram/chats/{ANA}?after={10**30}") as answer:
            assert answer.status == 400

    play(scenario)
