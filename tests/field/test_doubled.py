"""Doubled: one message is answered twice, or one answer is sent twice."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.field.conftest import Killed
from tests.field.reports import reported
from tests.field.world import World

pytestmark = pytest.mark.long


@reported(
    "telegraf/telegraf#806", "NousResearch/hermes-agent#68502", "felinics/Memoh#337", promise="P2", needs="webhooks"
)
def test_an_update_that_comes_again_is_answered_once(world: World) -> None:
    """Telegram missed the acknowledgement and delivers an update again: the bot answers each delivery."""
    ana = world.person()
    said = ana.says("only once")
    ana.hears("only once")

    world.redeliver(said)
    ana.says("the next")

    ana.hears("the next")
    assert ana.heard() == ["You said: only once", "You said: the next"]


@reported("openclaw/openclaw#122886", promise="P2", needs="webhooks")
def test_an_update_that_comes_again_after_a_restart_is_answered_once(killed: Killed) -> None:
    """What was seen is kept in memory: after a restart the gateway answers old updates anew."""
    assert killed.known.heard() == ["You said: known before the kill"]


@reported("rmyndharis/OpenWA#464", "Devlaner/devlane#332", promise="P2", needs="webhooks")
def test_an_update_that_comes_many_times_at_once_is_answered_once(world: World) -> None:
    """Two deliveries of one event arrive in the same second: both find that it is new, and both are answered."""
    ana = world.person()
    ana.says("hello")
    ana.hears("hello")
    chat = {"id": int(ana.id), "type": "private", "first_name": "Ana"}
    message = {
        "message_id": 77,
        "date": int(time.time()),
        "chat": chat,
        "text": "from all sides",
        "from": {**chat, "is_bot": False},
    }
    with ThreadPoolExecutor(8) as postmen:
        statuses = list(postmen.map(world.post_update, [{"update_id": 888_001, "message": message}] * 8))

    ana.hears("from all sides")
    world.settle()
    assert set(statuses) == {200}
    assert "\n".join(ana.heard()).count("from all sides") == 1


@reported("dcellison/kai#19", "openclaw/openclaw#70146", promise="P1", needs="webhooks")
def test_a_slow_model_lets_no_platform_wait(world: World) -> None:
    """The webhook is answered when the model has answered: the platform gives up before, delivers again, and both
    are answered.
    """
    ana = world.person()
    with world.model.hold("of a slow model"):
        ana.says("of a slow model")
        world.model.is_asked("of a slow model")

        world.delivered()

    ana.hears("of a slow model")
    world.settle()
    assert len(ana.heard()) == 1


@reported(
    "openclaw/openclaw#69448", "openclaw/openclaw#149430", "MervinPraison/PraisonAI#3860", promise="P7", needs="tools"
)
def test_what_a_failed_turn_has_said_is_not_said_again(world: World) -> None:
    """The agent has written to the person when the model fails: the whole turn is tried again, up to six times,
    and says it each time.
    """
    ana = world.person()
    ana.says(f"{world.system.speak('so far so good')} [[status 500]]")

    ana.hears("cut off")
    world.settle()
    assert ana.heard().count("so far so good") == 1


@reported("openclaw/openclaw#78264", promise="P7", needs="tools")
def test_what_a_killed_turn_has_said_is_not_said_again(killed: Killed) -> None:
    """The gateway is restarted in the middle of a turn, which begins anew and says again what it had said."""
    heard = killed.spoken.heard()
    assert heard[0] == "halfway there"
    assert len(heard) == 2
    assert "cut off" in heard[1]


@reported("NousResearch/hermes-agent#114396", promise="P7")
def test_a_long_answer_goes_on_where_the_platform_stopped_it(world: World) -> None:
    """A long answer goes out in parts and one is refused for a moment: all begins from the front, or the rest is
    missing.
    """
    ana = world.person()
    with world.fault("status", status=429, retry_after=1, method="sendMessage", chat=ana.id, times=1, every=2):
        ana.says("[[big 9000]]")

        ana.hears("x")
        world.settle()
    assert "".join(ana.heard()) == "x" * 9000


@reported("openclaw/openclaw#55640", promise="P7", needs="discord")
def test_an_answer_that_discord_took_without_a_word_is_there_once(world: World) -> None:
    """A send times out though the platform had taken it: the bot sends it again."""
    person, channel = world.channel()
    world.command(person, channel, "to begin with")
    world.hears(channel, "to begin with", "discord")
    with world.fault("accept_then_drop", "discord", chat=channel, times=1):
        world.command(person, channel, "[[say taken without a word]]")

        world.hears(channel, "taken without a word", "discord")
    world.settle()
    assert world.heard(channel, "discord").count("taken without a word") == 1


@reported("openclaw/openclaw#55640", "NousResearch/hermes-agent#47229", promise="P7")
def test_an_answer_that_telegram_took_without_a_word_is_there_twice_at_most(world: World) -> None:
    """The same on Telegram, which has no key that tells a repetition: the bot sends it again and again."""
    ana = world.person()
    with world.fault("accept_then_drop", method="sendMessage", chat=ana.id):
        ana.says("[[say is it there]]")
        ana.hears("is it there")
        world.settle()

    assert 1 <= len(ana.heard()) <= 2


@reported("dimagi/open-chat-studio#4288", promise="P2", needs="discord")
def test_an_interaction_that_comes_again_is_answered_once(world: World) -> None:
    """A platform posts an event again, as platforms do where they saw no answer: the command runs twice."""
    person, channel = world.channel()
    done = world.command(person, channel, "a command of one run")
    world.hears(channel, "a command of one run", "discord")

    world.control("POST", f"/discord/interactions/{done['interaction']}/replay", {})
    world.settle()

    assert len(world.model.requests("a command of one run")) == 1
    assert world.heard(channel, "discord") == ["You said: a command of one run"]
