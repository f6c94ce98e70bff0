"""Drafts of the bot's answers."""

from tests.emulator.platforms.telegram.test_files import refusal

ANA, GROUP = 5000000001, -4001002003


def test_a_draft_is_shown_and_is_no_message(play):
    async def scenario(world):
        await world.say("hello")
        news = await world.live_events()
        draft = {"chat_id": ANA, "draft_id": 7, "text": "<b>so far</b>", "parse_mode": "HTML", "can_stop": True}
        assert (await world.bot("sendMessageDraft", **draft))["result"] is True
        shown = await news.until("draft")
        assert (shown["draft_id"], shown["text"], shown["can_stop"], shown["for_ms"]) == (7, "so far", True, 30_000)
        assert (await world.bot("sendMessageDraft", chat_id=ANA, draft_id=7))["ok"]  # "Thinking…"
        assert await world.texts() == ["hello"]

    play(scenario)


def test_drafts_that_are_refused(play):
    async def scenario(world):
        await world.say("hello")
        for params, why in (
            ({"chat_id": GROUP, "draft_id": 1, "text": "x"}, "drafts can be sent to private chats only"),
            ({"chat_id": ANA, "draft_id": 0, "text": "x"}, "draft_id must be non-zero"),
            ({"chat_id": ANA, "draft_id": 1, "text": "a" * 4097}, "message is too long"),
            ({"chat_id": ANA, "draft_id": 1, "text": "x", "message_thread_id": 9}, "message thread not found"),
        ):
            assert refusal(await world.bot("sendMessageDraft", **params)) == (400, why)

    play(scenario)
