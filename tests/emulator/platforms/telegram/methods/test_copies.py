"""Messages that a bot forwards or copies."""

from tests.emulator.platforms.telegram.test_files import refusal, send

ANA, BEN, GROUP = 5000000001, 5000000002, -4001002003


def test_a_forward_names_its_author_also_when_it_is_forwarded_again(play):
    async def scenario(world):
        await world.say("/start")
        await world.say("soup", person=str(BEN), chat=str(GROUP))
        first = (await world.bot("forwardMessage", chat_id=ANA, from_chat_id=GROUP, message_id=1))["result"]
        again = (await world.bot("forwardMessage", chat_id=GROUP, from_chat_id=ANA, message_id=first["message_id"]))[
            "result"
        ]
        for sent in (first, again):
            assert (sent["text"], sent["forward_origin"]["sender_user"]["id"], sent["from"]["is_bot"]) == (
                "soup",
                BEN,
                True,
            )
        shown = (await world.see(f"/control/telegram/chats/{ANA}"))["messages"][-1]
        assert (shown["text"], shown["forwarded_from"]) == ("soup", "Ben")
        answer = await world.bot("forwardMessage", chat_id=ANA, from_chat_id=GROUP, message_id=99)
        assert refusal(answer) == (400, "message to forward not found")

    play(scenario)


def test_a_copy_has_no_author_and_may_have_another_caption(play):
    async def scenario(world):
        await world.say("hello")
        file = {"document": ("notes.txt", b"abc", "text/plain")}
        source = (await send(world, "sendDocument", {"caption": "old"}, **file))["result"]["message_id"]
        given = {"chat_id": ANA, "from_chat_id": ANA, "message_id": source}
        copied = (await world.bot("copyMessage", **given, caption="<b>new</b>", parse_mode="HTML"))["result"]
        assert copied == {"message_id": source + 1}
        shown = (await world.see(f"/control/telegram/chats/{ANA}"))["messages"][-1]
        assert (shown["text"], shown["forwarded_from"], shown["files"][0]["name"]) == ("new", None, "notes.txt")

    play(scenario)


def test_many_are_sent_in_order_without_those_that_are_gone(play):
    async def scenario(world):
        for text in ("one", "two", "three"):
            await world.say(text)
        given = {"chat_id": ANA, "from_chat_id": ANA}
        await world.bot("deleteMessage", chat_id=ANA, message_id=2)
        sent = (await world.bot("copyMessages", **given, message_ids=[1, 2, 3]))["result"]
        assert sent == [{"message_id": 4}, {"message_id": 5}]
        assert (await world.texts())[-2:] == ["one", "three"]
        for wanted, why in (
            ([3, 1], "message identifiers must be in a strictly increasing order"),
            ([2], "there are no messages to forward"),
            ([], "message identifiers are not specified"),
        ):
            assert refusal(await world.bot("forwardMessages", **given, message_ids=wanted)) == (400, why)

    play(scenario)
