"""The topics that a bot makes and changes."""

from tests.emulator.platforms.telegram.methods.test_members import group_of
from tests.emulator.platforms.telegram.test_files import refusal

ANA, GROUP = 5000000001, -4001002003


def test_a_bot_makes_a_topic_and_writes_in_it(play):
    async def scenario(world):
        await world.say("hello")
        topic = (await world.bot("createForumTopic", chat_id=ANA, name="Plans"))["result"]
        sent = await world.bot("sendMessage", chat_id=ANA, text="x", message_thread_id=topic["message_thread_id"])
        assert (sent["result"]["message_thread_id"], sent["result"]["is_topic_message"]) == (
            topic["message_thread_id"], True,
        )  # fmt: skip
        for chat, name, why in ((ANA, "a" * 129, "TOPIC_TITLE_INVALID"), (GROUP, "x", "the chat is not a forum")):
            assert refusal(await world.bot("createForumTopic", chat_id=chat, name=name)) == (400, why)

    play(scenario)


def test_a_topic_is_renamed_closed_for_people_and_deleted_with_its_messages(play):
    async def scenario(world):
        chat = await group_of(world)
        topic = {"chat_id": int(chat)}
        topic["message_thread_id"] = (await world.bot("createForumTopic", chat_id=chat, name="Food"))["result"][
            "message_thread_id"
        ]
        written = {"person": "5000000002", "chat": chat, "thread": topic["message_thread_id"], "text": "soup"}
        await world.do("/chat/telegram/say", written)
        await world.bot("editForumTopic", **topic, name="Wine")
        assert (await world.bot("closeForumTopic", **topic))["ok"]
        assert refusal(await world.bot("closeForumTopic", **topic)) == (400, "TOPIC_NOT_MODIFIED")
        async with world.session.post(f"{world.platforms.url}/chat/telegram/say", json=written) as response:
            assert "topic is closed" in (await response.json())["error"]
        assert (await world.bot("sendMessage", **topic, text="an administrator may"))["ok"]
        (shown,) = (await world.see(f"/control/telegram/chats/{chat}"))["chat"]["topics"]
        assert (shown["name"], shown["is_closed"]) == ("Wine", True)
        await world.bot("deleteForumTopic", **topic)
        seen = await world.see(f"/control/telegram/chats/{chat}")
        assert (seen["chat"]["topics"], seen["messages"]) == ([], [])
        assert refusal(await world.bot("editForumTopic", **topic, name="x")) == (400, "TOPIC_ID_INVALID")

    play(scenario)
