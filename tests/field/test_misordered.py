"""Misordered: answers, or parts of them, overtake each other."""

import pytest

from tests.field.reports import reported
from tests.field.world import World

pytestmark = pytest.mark.long


@reported("SamSaffron/term-llm#987", promise="P8")
def test_a_message_that_is_tried_again_is_not_overtaken(world: World) -> None:
    """The first message needs another attempt: the second one, written later, is answered before it."""
    ana = world.person()
    with world.model.hold("the elder"):
        ana.says("[[status 529 times=1]] [[say the elder]]")
        world.model.is_asked("the elder")
        ana.says("[[say the younger]]")
        world.delivered()

    ana.hears("the younger")
    assert "\n".join(ana.heard()).split("\n") == ["the elder", "the younger"]


@reported("openclaw/openclaw#10848", "openclaw/openclaw#11044", "openclaw/openclaw#82703", promise="P8", needs="tools")
def test_what_a_turn_says_arrives_as_it_was_said(world: World) -> None:
    """An agent writes three messages in one turn and then answers: each goes its own way to the platform, and the
    last arrives first.
    """
    ana = world.person()
    said = ["one of four", "two of four", "three of four"]
    ana.says(" ".join(map(world.system.speak, said)) + " [[say four of four]]")

    ana.hears("four of four")
    assert ana.heard() == [*said, "four of four"]


@reported("openclaw/openclaw#10848", "NousResearch/hermes-agent#114396", promise="P8", needs="tools")
def test_an_answer_that_the_platform_holds_back_is_not_overtaken(world: World) -> None:
    """The platform refuses one message for a moment: the next one, which it takes, is there before."""
    ana = world.person()
    with world.fault("status", status=429, retry_after=1, method="sendMessage", chat=ana.id, times=1):
        ana.says(f"{world.system.speak('held back')} [[say right behind]]")

        ana.hears("right behind")
    assert ana.heard() == ["held back", "right behind"]
