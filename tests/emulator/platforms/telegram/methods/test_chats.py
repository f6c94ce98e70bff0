"""What a bot reads about chats and their members."""

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
        for user, status in ((ANA, "creator"), (BEN, "member"), (me, "member")):
            member = await world.bot("getChatMember", chat_id=GROUP, user_id=user)
            assert member["result"]["status"] == status
        answer = await world.bot("getChatMember", chat_id=GROUP, user_id=77)
        assert refusal(answer) == (400, "PARTICIPANT_ID_INVALID")

    play(scenario)
