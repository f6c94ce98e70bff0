"""Administrators, restrictions and bans; what a bot may do only with a right."""

import pytest

from tests.emulator.platforms.telegram.test_files import refusal

ANA, BEN = 5000000001, 5000000002


async def group_of(world, *, is_admin=True):
    """A supergroup of Ana's with Ben and the bot."""
    made = await world.do("/chat/telegram/chats", {"title": "Trip", "members": [str(ANA), str(BEN)], "super": True})
    if is_admin:
        await world.do("/chat/telegram/admin", {"chat": made["chat"]})
    return made["chat"]


async def says(world, chat, person):
    """Why *person* can't write in the chat, or None."""
    body = {"person": str(person), "chat": chat, "text": "x"}
    async with world.session.post(f"{world.platforms.url}/chat/telegram/say", json=body) as response:
        return (await response.json()).get("error")


async def status_of(world, chat, person):
    return (await world.bot("getChatMember", chat_id=int(chat), user_id=person))["result"]["status"]


NEED = {
    "banChatMember": ({"user_id": BEN}, "restrict/unrestrict chat member"),
    "promoteChatMember": ({"user_id": BEN, "can_pin_messages": True}, "change chat member status"),
    "pinChatMessage": ({"message_id": 1}, "manage pinned messages in the chat"),
    "setChatTitle": ({"title": "x"}, "change chat title"),
    "createForumTopic": ({"name": "Food"}, "create a topic"),
    "hideGeneralForumTopic": ({}, "edit the topic"),
}


@pytest.mark.parametrize(("method", "given"), NEED.items(), ids=NEED)
def test_a_bot_that_is_no_administrator_may_not(play, method, given):
    params, words = given

    async def scenario(world):
        chat = await group_of(world, is_admin=False)
        await world.do("/chat/telegram/say", {"person": str(ANA), "chat": chat, "text": "hello"})
        answer = await world.bot(method, chat_id=int(chat), **params)
        assert refusal(answer) == (400, f"not enough rights to {words}")
        await world.do("/chat/telegram/admin", {"chat": chat})
        assert (await world.bot(method, chat_id=int(chat), **params))["ok"]

    play(scenario)


def test_the_bot_hears_that_it_became_an_administrator(play):
    async def scenario(world):
        await world.platforms.register()
        chat = await group_of(world)
        got = (await world.endpoint.wait(2))[1].body["my_chat_member"]
        assert (got["old_chat_member"]["status"], got["new_chat_member"]["status"]) == ("member", "administrator")
        listed = (await world.bot("getChatAdministrators", chat_id=int(chat)))["result"]
        assert [(each["status"], each["user"]["is_bot"]) for each in listed] == [
            ("creator", False), ("administrator", True),
        ]  # fmt: skip

    play(scenario)


def test_a_banned_person_is_out_until_the_ban_is_lifted(play):
    async def scenario(world):
        chat = await group_of(world)
        assert (await world.bot("banChatMember", chat_id=int(chat), user_id=BEN))["ok"]
        assert (await says(world, chat, BEN), await status_of(world, chat, BEN)) == (
            "Ben is banned from Trip; the bot can take that back", "kicked",
        )  # fmt: skip
        await world.bot("unbanChatMember", chat_id=int(chat), user_id=BEN)
        assert await status_of(world, chat, BEN) == "left"
        assert await says(world, chat, BEN) is None
        answer = await world.bot("banChatMember", chat_id=int(chat), user_id=ANA)
        assert refusal(answer) == (400, "can't remove chat owner")

    play(scenario)


def test_a_restricted_person_reads_and_does_not_write(play):
    async def scenario(world):
        chat = await group_of(world)
        person = {"chat_id": int(chat), "user_id": BEN}
        await world.bot("restrictChatMember", **person, permissions={"can_send_polls": True})
        assert (await says(world, chat, BEN), await status_of(world, chat, BEN)) == (
            "Ben may not write in Trip: the bot restricted it", "restricted",
        )  # fmt: skip
        everything = dict.fromkeys((await world.bot("getChat", chat_id=int(chat)))["result"]["permissions"], True)
        await world.bot("restrictChatMember", **person, permissions=everything)
        assert (await says(world, chat, BEN), await status_of(world, chat, BEN)) == (None, "member")
        await world.bot("setChatPermissions", chat_id=int(chat), permissions={})
        assert await says(world, chat, BEN) == "Ben may not write in Trip: the bot restricted it"
        await world.bot("promoteChatMember", **person, can_pin_messages=True)
        assert (await says(world, chat, BEN), await status_of(world, chat, BEN)) == (None, "administrator")

    play(scenario)


def test_a_bot_that_left_is_told_so_until_a_person_adds_it_again(play):
    async def scenario(world):
        await world.platforms.register()
        chat = await group_of(world)
        assert (await world.bot("leaveChat", chat_id=int(chat)))["ok"]
        left = (await world.endpoint.wait(3))[2].body["my_chat_member"]["new_chat_member"]["status"]
        answer = await world.bot("sendMessage", chat_id=int(chat), text="x")
        assert (left, answer["error_code"], answer["description"]) == (
            "left", 403, "Forbidden: bot is not a member of the supergroup chat",
        )  # fmt: skip
        await world.do("/chat/telegram/block", {"chat": chat, "blocked": False})
        assert (await world.bot("sendMessage", chat_id=int(chat), text="x"))["ok"]

    play(scenario)
