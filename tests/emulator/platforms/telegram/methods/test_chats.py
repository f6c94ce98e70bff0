"""What a bot reads about chats, and the topics that it makes."""

from tests.emulator.platforms.telegram.test_files import refusal

ANA, BEN, GROUP = 5000000001, 5000000002, -4001002003


def test_chats_and_their_members(play):
    async def scenario(world):
        await world.say("hello")
        chat = (await world.bot("getChat", chat_id=ANA))["result"]
        assert (chat["type"], chat["max_reaction_count"], chat["accepted_gift_types"]["unique_gifts"]) == (
            "private", 11, False,
        )  # fmt: skip
        assert (await world.bot("getChatMemberCount", chat_id=GROUP))["result"] == 3
        me = (await world.bot("getMe"))["result"]["id"]
        for user, status in ((ANA, "member"), (me, "member")):
            member = await world.bot("getChatMember", chat_id=GROUP, user_id=user)
            assert member["result"]["status"] == status
        answer = await world.bot("getChatMember", chat_id=GROUP, user_id=77)
        assert refusal(answer) == (400, "PARTICIPANT_ID_INVALID")

    play(scenario)


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
