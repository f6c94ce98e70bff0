"""Stuck: one message, chat or event stops others."""

import pytest

from tests.field.conftest import Killed
from tests.field.reports import reported
from tests.field.world import World

pytestmark = pytest.mark.long


@reported("openclaw/openclaw#71127", "TinyAGI/tinyagi#218", promise="P3")
def test_a_model_that_hangs_stops_nobody_else(world: World) -> None:
    """One request of the model never ends: the agent answers nobody until somebody restarts the gateway."""
    ana, ben = world.person(), world.person()
    with world.model.hold("for ever and ever"):
        ana.says("for ever and ever")
        world.model.is_asked("for ever and ever")

        ben.says("and what about me")
        ben.hears("and what about me")


@reported("NousResearch/hermes-agent#4653", "openclaw/openclaw#73868", promise="P6")
def test_a_turn_that_hangs_comes_to_an_end(world: World) -> None:
    """A turn that hears nothing from its model stays "processing" for days."""
    ana = world.person()
    ana.says("[[hang times=1]] [[say awake again]]")

    ana.hears("awake again")
    assert ana.heard() == ["awake again"]


@reported("openclaw/openclaw#91670", promise="P9")
def test_chats_go_on_after_a_kill(world: World, killed: Killed) -> None:
    """An event stays claimed by a process that is gone: all later ones of the chat wait behind it."""
    people = (killed.running, killed.refused, killed.away, killed.known, killed.spoken)
    for each in people:
        each.says("and now")
    for each in people:
        each.hears("and now")


@reported(
    "nutgram/nutgram#760",
    "irazasyed/telegram-bot-sdk#389",
    "opengovsg/postmangovsg#955",
    promise="P12",
    needs="webhooks",
)
def test_an_event_that_nobody_can_read_is_taken_once(world: World) -> None:
    """An event has an unknown form: the handler fails, and the platform delivers it again and again, before all
    others.
    """
    ana = world.person()
    odd = {
        "update_id": 888_003,
        "message": {"message_id": 5, "chat": {"id": int(ana.id), "type": "private"}, "text": 7},
    }

    assert world.post_update(odd) == 200
    assert world.post_update({"update_id": 888_004, "something_new": {"of": "the future"}}) == 200
    ana.says("is anybody there")
    ana.hears("is anybody there")


@reported("strelov1/freehire#2173", promise="P8")
def test_a_person_who_blocks_the_bot_stops_nobody_else(world: World) -> None:
    """A person blocks the bot: each send there fails, for ever, and the answers to others wait behind it."""
    ana, ben = world.person(), world.person()
    with world.model.hold("before I block you"):
        ana.says("before I block you")
        world.model.is_asked("before I block you")
        world.control("POST", f"/telegram/chats/{ana.id}/block", {"blocked": True})

    ben.says("still there")
    ben.hears("still there")
    world.settle()
    assert len([each for each in world.calls(ana.id) if each["method"] == "sendMessage"]) <= 2


@reported("sorokin-vladimir/tele#224", promise="P8")
def test_a_chat_goes_on_behind_an_answer_that_is_refused(world: World) -> None:
    """The platform will never take one message: it stays at the head of the chat, and nothing passes it."""
    ana = world.person()
    refusal = "Bad Request: MESSAGE_FORBIDDEN"
    with world.fault("status", status=400, description=refusal, method="sendMessage", chat=ana.id):
        ana.says("[[say never to arrive]]")
        world.is_refused(ana.id)
        world.settle()
    ana.says("[[say the one behind it]]")

    ana.hears("the one behind it")
    assert ana.heard() == ["the one behind it"]


@reported("ClemBotProject/ClemBot#241", promise="P10")
def test_any_text_is_text(world: World) -> None:
    """A text is put into a command line, a path or a query as it is: it reaches what it names, or the answer fails."""
    texts = ("--help", "@/etc/hostname", "$(reboot)", "'; DROP TABLE messages; --", "\u202e\u0661 \U0001f9ff")
    people = [world.person() for _ in texts]
    for person, text in zip(people, texts, strict=True):
        person.says(f"{text} of a person")

    for person, text in zip(people, texts, strict=True):
        assert text[:2] in person.hears("of a person")
