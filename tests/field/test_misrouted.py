"""Misrouted: an answer is in another place than its question."""

import pytest

from tests.field.reports import reported
from tests.field.world import World

pytestmark = pytest.mark.long


@reported("openclaw/openclaw#68378", "nanocoai/nanoclaw#1902", promise="P8")
def test_people_who_write_at_once_get_their_own_answers(world: World) -> None:
    """Answers go to whoever wrote last: with several people at once, one reads what is for another."""
    people = [world.person() for _ in range(8)]
    with world.model.hold("of my own"):
        for number, each in enumerate(people):
            each.says(f"of my own {number}")
        world.delivered()

    for number, each in enumerate(people):
        each.hears(f"of my own {number}")
    world.settle()
    assert [each.heard() for each in people] == [[f"You said: of my own {number}"] for number in range(8)]


@reported(
    "nanocoai/nanoclaw#2062",
    "ringclaw/openclaw-ringcentral#115",
    "openclaw/openclaw#79308",
    promise="P8",
    needs="groups",
)
def test_a_group_and_a_direct_chat_of_one_person_stay_apart(world: World) -> None:
    """A person writes in a group and privately at the same time: the group reads the private answer, or the other
    way round.
    """
    ana = world.person()
    group = world.group(ana)
    with world.model.hold("here or there"):
        ana.says(f"@{world.around.telegram_username} here or there, in the group", group)
        ana.says("here or there, between us")
        world.delivered()

    ana.hears("between us")
    assert "in the group" in world.hears(group, "in the group")
    world.settle()
    assert [len(ana.heard()), len(world.heard(group))] == [1, 1]


@reported("adolfousier/opencrabs#130", "nanocoai/nanoclaw-telegram#97", promise="P8", needs="topics")
def test_an_answer_stays_in_its_topic(world: World) -> None:
    """A question in a topic of a group is answered in the general chat."""
    ana = world.person()
    group = world.group(ana, is_super=True)
    name = f"@{world.around.telegram_username}"
    with world.model.hold("in topic"):
        ana.says(f"{name} in topic 12", group, 12)
        ana.says(f"{name} in topic 34", group, 34)
        world.delivered()

    world.hears(group, "in topic 12")
    world.hears(group, "in topic 34")
    assert {(each["text"][-2:], each["thread"]) for each in world.messages(group)} == {("12", 12), ("34", 34)}


@reported("openclaw/openclaw#874", "tdlib/telegram-bot-api#447", promise="P8", needs="topics")
def test_a_question_in_the_general_topic_is_answered(world: World) -> None:
    """The general topic has no number of its own: the bot sends to number 1 and is told that there is no such
    topic.
    """
    ana = world.person()
    group = world.group(ana, is_super=True)
    ana.says(f"@{world.around.telegram_username} in topic 12", group, 12)
    ana.says(f"@{world.around.telegram_username} in no topic", group)

    world.hears(group, "in no topic")
    (answer,) = [each for each in world.messages(group) if "in no topic" in each["text"]]
    assert answer["thread"] is None


@reported("openclaw/openclaw#84470", promise="P8", needs="topics")
def test_an_answer_whose_place_is_closed_goes_nowhere_else(world: World) -> None:
    """The place of the question is gone when the answer is ready: it goes to the next best one, where others read
    it.
    """
    ana = world.person()
    group = world.group(ana, is_super=True)
    with world.model.hold("of a closed topic"):
        ana.says(f"@{world.around.telegram_username} of a closed topic", group, 56)
        world.model.is_asked("of a closed topic")
        world.control("POST", f"/telegram/chats/{group}/topics/56/close", {})

    world.is_refused(group)
    world.settle()
    assert (world.heard(group), ana.heard()) == ([], [])


@reported("openclaw/openclaw#68378", promise="P10", needs="discord")
def test_people_of_two_platforms_share_nothing(world: World) -> None:
    """A person of one platform is taken for one of another: the answer goes there, with the other's conversation."""
    ana = world.person()
    person, channel = world.channel()
    ana.says("the word is heliotrope")
    ana.hears("heliotrope")

    world.command(person, channel, "[[history]] tell me the word")

    world.hears(channel, "no history", "discord")
    world.settle()
    assert len(ana.heard()) == 1


@reported("openclaw/openclaw#3805", promise="P10", needs="tools")
def test_an_agent_writes_to_nobody_whom_a_text_names(world: World) -> None:
    """A text makes the agent write to a number of the platform: somebody who never wrote gets a message."""
    ana, ben = world.person(), world.person()
    ben.says("I was here")
    ben.hears("I was here")

    ana.says(f'[[tool send_message {{"text": "psst", "to": "{ben.id}"}}]] [[say tried it]]')

    ana.hears("tried it")
    world.settle()
    assert ben.heard() == ["You said: I was here"]
