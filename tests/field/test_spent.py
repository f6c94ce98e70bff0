"""Spent: the model is asked more often than anybody wanted."""

import time

import pytest

from tests.field.reports import reported
from tests.field.world import World

pytestmark = pytest.mark.long


@reported("openclaw/openclaw#59160", promise="P2", needs="webhooks")
def test_an_update_that_comes_again_costs_one_request(world: World) -> None:
    """A slow gateway gets the same update hundreds of times: each delivery is a run of the model."""
    ana = world.person()
    said = ana.says("priced at one request")
    ana.hears("priced at one request")

    for _ in range(5):
        world.redeliver(said)
        world.delivered()
    world.settle()

    assert len(world.model.requests("priced at one request")) == 1


@reported("NousResearch/hermes-agent#86134", "dam-agents/dam#3238", promise="P8")
def test_a_burst_is_no_turn_for_each_message(world: World) -> None:
    """Five short messages in a row are five runs of the model, each with all that came before."""
    ana = world.person()
    with world.model.hold("dictated 0"):
        ana.says("dictated 0")
        world.model.is_asked("dictated 0")
        for number in range(1, 6):
            ana.says(f"dictated {number}")
        world.delivered()
        begun = len(world.model.arrived)

    ana.hears("dictated 5")
    world.settle()
    assert len(world.model.arrived) == begun + 1


@reported("coder/xum#544", "thedotmack/claude-mem#1481", promise="P6", needs="agents")
def test_a_key_that_is_refused_is_not_tried_on_and_on(world: World) -> None:
    """The model's key has expired: every waiting message is tried again every few seconds, for days."""
    ana, ben = world.person(), world.person()
    for each in (ana, ben):
        each.says(f"{world.system.second_agent}[[status 401]] of a dead key")
    world.model.is_asked("of a dead key")

    ana.says("and meanwhile")
    ana.hears("and meanwhile")
    assert len(world.model.requests("of a dead key")) <= 2


@reported("generalbots/generalbots#1393", "builderz-labs/marketing-dashboard#11", promise="P6")
def test_a_model_that_asks_for_time_gets_it(world: World) -> None:
    """The model's host says when it may be asked again: the gateway asks at once, and again, until the attempts
    are used up.
    """
    ana = world.person()
    ana.says("[[status 429 retry-after=3 times=1]] [[say you have waited]]")
    world.model.is_asked("you have waited")

    ana.hears("you have waited")
    assert len(world.model.requests("you have waited")) == 2


@reported("MervinPraison/PraisonAI#2683", promise="P12", needs="webhooks")
def test_a_bot_is_not_answered(world: World) -> None:
    """Two bots in one room answer each other until somebody looks at the bill."""
    ana = world.person()
    chat = {"id": int(ana.id), "type": "private", "first_name": "Ana"}
    bot = {"id": 990_001, "is_bot": True, "first_name": "Another bot", "username": "another_bot"}
    message = {"message_id": 1, "date": int(time.time()), "chat": chat, "text": "thank you, bot", "from": bot}

    assert world.post_update({"update_id": 888_005, "message": message}) == 200
    world.settle()
    assert world.model.requests("thank you, bot") == []


@reported("TinyAGI/tinyagi#45", promise="P10", needs="limits")
def test_one_person_can_not_ask_without_end(world: World) -> None:
    """Nothing limits how much one person writes: a stranger with a script spends the owner's money."""
    ana = world.person()
    with world.model.hold("flood 000"):
        for number in range(100):
            ana.says(f"flood {number:03}.")
        world.delivered()
    world.settle()

    asked = "\n".join(world.model.requests("flood"))
    assert 60 <= sum(f"flood {number:03}." in asked for number in range(100)) < 90
