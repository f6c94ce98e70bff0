"""Pinned messages, titles and descriptions."""

from tests.emulator.platforms.telegram.methods.test_members import group_of
from tests.emulator.platforms.telegram.test_files import refusal

ANA = 5000000001


def test_the_newest_pinned_message_is_the_chat_s_and_all_stand_on_the_page(play):
    async def scenario(world):
        for text in ("one", "two", "three"):
            await world.say(text)
        for message in (1, 2):
            assert (await world.bot("pinChatMessage", chat_id=ANA, message_id=message))["ok"]
        assert (await world.bot("getChat", chat_id=ANA))["result"]["pinned_message"]["text"] == "two"
        shown = (await world.see(f"/control/telegram/chats/{ANA}"))["chat"]["pinned"]
        assert shown == [{"id": "2", "preview": "two"}, {"id": "1", "preview": "one"}]
        await world.bot("unpinChatMessage", chat_id=ANA)
        assert (await world.bot("getChat", chat_id=ANA))["result"]["pinned_message"]["text"] == "one"
        for message, why in ((2, "message to unpin not found"), (99, "message to unpin not found")):
            assert refusal(await world.bot("unpinChatMessage", chat_id=ANA, message_id=message)) == (400, why)
        await world.bot("unpinAllChatMessages", chat_id=ANA)
        assert "pinned_message" not in (await world.bot("getChat", chat_id=ANA))["result"]

    play(scenario)


def test_a_group_gets_a_title_and_a_description(play):
    async def scenario(world):
        chat = await group_of(world)
        await world.bot("setChatTitle", chat_id=int(chat), title="Tour")
        await world.bot("setChatDescription", chat_id=int(chat), description="in May")
        found = (await world.bot("getChat", chat_id=int(chat)))["result"]
        assert (found["title"], found["description"]) == ("Tour", "in May")
        answer = await world.bot("setChatTitle", chat_id=int(chat), title="Tour")
        assert refusal(answer) == (400, "chat title is not modified")
        await world.say("hello")
        assert refusal(await world.bot("setChatTitle", chat_id=ANA, title="x")) == (
            400,
            "can't change private chat title",
        )

    play(scenario)
