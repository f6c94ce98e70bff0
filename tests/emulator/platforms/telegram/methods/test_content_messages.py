"""Polls, places, contacts and dice of the fake Telegram."""

import pytest

from emulator.platforms.telegram import schema
from tests.emulator.platforms.telegram.test_files import refusal

ANA, BEN, GROUP = 5000000001, 5000000002, -4001002003


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


async def sent_poll(world, **more):
    await world.say("hello", chat=str(GROUP))
    asked = {"question": "Lunch?", "options": [{"text": "Pizza"}, {"text": "Noodles"}], **more}
    return (await world.bot("sendPoll", chat_id=GROUP, **asked))["result"]


async def vote(world, sent, options, person=ANA):
    body = {"chat": str(GROUP), "message": str(sent["message_id"]), "person": str(person), "options": options}
    async with world.session.post(f"{world.platforms.url}/chat/telegram/vote", json=body) as response:
        answer = await response.json()
        return answer.get("error")


def test_votes_are_counted_and_the_bot_hears_who_chose_what(play):
    async def scenario(world):
        await world.bot(
            "setWebhook", url=world.config.webhook_urls["telegram"], allowed_updates=["poll", "poll_answer"]
        )
        sent = await sent_poll(world, is_anonymous=False)
        assert await vote(world, sent, [1]) is None
        assert await vote(world, sent, [0, 1], BEN) == "this poll takes one option"
        assert await vote(world, sent, [2], BEN) == "the poll has the options 0 to 1"
        assert await vote(world, sent, []) is None
        got = [update.body for update in await world.endpoint.wait(4)]
        counts = [each["poll"]["options"][1]["voter_count"] for each in got if "poll" in each]
        answers = [
            (each["poll_answer"]["user"]["id"], each["poll_answer"]["option_ids"]) for each in got if "poll" not in each
        ]
        assert (counts, answers) == ([1, 0], [(ANA, [1]), (ANA, [])])

    play(scenario)


def test_nobody_hears_who_chose_what_in_an_anonymous_poll(play):
    async def scenario(world):
        sent = await sent_poll(world)
        await vote(world, sent, [1])
        kinds = [each["kind"] for each in (await world.see("/control/telegram/webhook"))["deliveries"]]
        assert kinds == ["message", "poll"]

    play(scenario)


def test_a_poll_is_over_when_the_bot_stops_it_or_its_time_has_passed(play):
    async def scenario(world):
        sent = await sent_poll(world, open_period=60)
        world.clock.advance(60_000)
        assert await vote(world, sent, [1]) == "the poll is closed"
        sent = await sent_poll(world)
        await vote(world, sent, [0])
        stopped = (await world.bot("stopPoll", chat_id=GROUP, message_id=sent["message_id"]))["result"]
        assert (stopped["is_closed"], stopped["total_voter_count"]) == (True, 1)
        assert await vote(world, sent, [1]) == "the poll is closed"
        answer = await world.bot("stopPoll", chat_id=GROUP, message_id=sent["message_id"])
        assert refusal(answer) == (400, "poll has already been closed")

    play(scenario)


def test_a_quiz_has_an_answer_and_one_try(play):
    async def scenario(world):
        sent = await sent_poll(world, type="quiz", correct_option_ids=[1], explanation="boiled")
        assert (sent["poll"]["type"], sent["poll"]["correct_option_ids"]) == ("quiz", [1])
        assert await vote(world, sent, [0]) is None
        assert await vote(world, sent, [1]) == "in a quiz nobody votes twice"

    play(scenario)


SENT = {
    "sendLocation": ({"latitude": 52.5, "longitude": "13.4"}, "location", "Location:\n52.5, 13.4"),
    "sendVenue": (
        {"latitude": 52.5, "longitude": 13.4, "title": "Cafe", "address": "Main St 1"},
        "venue",
        "Place: Cafe\nMain St 1\n52.5, 13.4",
    ),
    "sendContact": ({"phone_number": "+491", "first_name": "Cara"}, "contact", "Contact: Cara\n+491"),
}


@pytest.mark.parametrize(("method", "given"), SENT.items(), ids=SENT)
def test_a_place_or_a_contact_is_a_message_that_the_page_shows_in_words(play, method, given):
    params, kind, shown = given

    async def scenario(world):
        await world.say("hello")
        sent = (await world.bot(method, chat_id=ANA, **params))["result"]
        assert (kind in sent, "text" in sent) == (True, False)
        assert (await world.texts())[-1] == shown
        missing = dict(list(params.items())[1:])
        assert refusal(await world.bot(method, chat_id=ANA, **missing))[1].endswith(" is empty")

    play(scenario)


def test_a_live_location_moves_until_it_is_stopped(play):
    async def scenario(world):
        await world.say("hello")
        here = {"latitude": 1, "longitude": 2}
        still = (await world.bot("sendLocation", chat_id=ANA, **here))["result"]
        live = (await world.bot("sendLocation", chat_id=ANA, live_period=900, **here))["result"]
        place = {"chat_id": ANA, "message_id": live["message_id"]}
        moved = (await world.bot("editMessageLiveLocation", **place, latitude=3, longitude=4))["result"]
        assert moved["location"] == {"latitude": 3, "longitude": 4, "live_period": 900}
        stopped = (await world.bot("stopMessageLiveLocation", **place))["result"]
        assert stopped["location"] == {"latitude": 3, "longitude": 4}
        for message in (still, live):
            place["message_id"] = message["message_id"]
            answer = await world.bot("editMessageLiveLocation", **place, latitude=5, longitude=6)
            assert refusal(answer) == (400, "message can't be edited")

    play(scenario)
