"""Polls of the fake Telegram."""

import pytest

from emulator.platforms.telegram import schema
from tests.emulator.platforms.telegram.test_files import refusal

ANA = 5000000001


def test_a_poll_is_a_message_that_the_page_shows_in_words(play):
    async def scenario(world):
        await world.say("hello")
        asked = {"question": "Lunch?", "options": [{"text": "Pizza"}, {"text": "Noodles"}], "open_period": 3600}
        sent = (await world.bot("sendPoll", chat_id=ANA, **asked))["result"]
        assert schema.problem_of_result("sendPoll", sent) is None
        poll = sent["poll"]
        assert (poll["question"], [each["text"] for each in poll["options"]]) == ("Lunch?", ["Pizza", "Noodles"])
        assert (poll["is_anonymous"], poll["allows_multiple_answers"], "text" in sent) == (True, False, False)
        shown = (await world.see(f"/control/telegram/chats/{ANA}"))["messages"][-1]
        assert shown["text"] == "Poll: Lunch?\n- Pizza\n- Noodles"

    play(scenario)


REFUSED = {
    "no question": ({"question": " "}, "poll question must be non-empty"),
    "a long question": ({"question": "x" * 301}, "poll question length must not exceed 300"),
    "no option": ({"options": []}, "poll must have at least 1 option"),
    "an empty option": ({"options": [{"text": " "}]}, "poll options must be non-empty"),
    "a long option": ({"options": [{"text": "x" * 101}]}, "poll options length must not exceed 100"),
    "thirteen options": ({"options": [{"text": str(n)} for n in range(13)]}, "poll can't have more than 12 options"),
    "open for years": ({"open_period": 10**8}, "invalid poll open period"),
    "another topic": ({"message_thread_id": 9}, "message thread not found"),
}


@pytest.mark.parametrize(("changes", "why"), REFUSED.values(), ids=REFUSED)
def test_what_telegram_refuses(play, changes, why):
    async def scenario(world):
        await world.say("hello")
        asked = {"question": "Lunch?", "options": [{"text": "Pizza"}, {"text": "Noodles"}], **changes}
        assert refusal(await world.bot("sendPoll", chat_id=ANA, **asked)) == (400, why)

    play(scenario)
