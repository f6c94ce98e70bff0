"""Lost: what a person wrote gets no answer, or an answer never arrives."""

import pytest

from tests.field.conftest import Killed
from tests.field.reports import reported
from tests.field.world import World

pytestmark = pytest.mark.long


@reported("openclaw/openclaw#42157", promise="P1")
def test_what_was_accepted_before_a_kill_is_answered(killed: Killed) -> None:
    """The webhook is acknowledged first, and the message is only in memory: a restart loses it, and the platform
    does not send it again.
    """
    assert "\n".join(killed.running.heard()).endswith("accepted and waiting")


@reported("openclaw/openclaw#77000", promise="P9")
def test_a_turn_that_a_kill_ended_is_run_again(killed: Killed) -> None:
    """The gateway is killed while the agent works: the new process never looks at that message."""
    assert killed.running.heard()[0].startswith("You said: of a running turn")


@reported("openclaw/openclaw#22376", promise="P9")
def test_an_answer_that_waited_for_the_platform_at_a_kill_arrives(killed: Killed) -> None:
    """The answer is there, the network is not, and then comes a restart: the answer is gone."""
    assert killed.refused.heard() == ["of no platform"]


@reported("openclaw/openclaw#55792", "openclaw/openclaw#98076", promise="P1")
def test_what_is_written_while_nothing_runs_is_answered(killed: Killed) -> None:
    """People write during the half minute of a restart, and nobody ever looks at it."""
    assert killed.away.heard() == ["You said: nobody was there"]


@reported("NousResearch/hermes-agent#47229", promise="P6")
def test_an_answer_waits_for_a_platform_that_cant_work(world: World) -> None:
    """The platform answers a send with an error of its own: the bot logs it, and the answer is gone."""
    ana = world.person()
    with world.fault("status", status=502, method="sendMessage", chat=ana.id, times=3):
        ana.says("[[say through the storm]]")

        ana.hears("through the storm")
    world.settle()
    assert ana.heard() == ["through the storm"]


@reported("adolfousier/opencrabs#297", "vanutp/tgbridge#157", promise="P8")
def test_a_rate_limit_delays_an_answer_and_drops_none(world: World) -> None:
    """The platform says "too many requests, wait a second": the bot takes that for a failure and drops the answer."""
    ana = world.person()
    with world.fault("status", status=429, retry_after=1, method="sendMessage", chat=ana.id, times=2):
        ana.says("[[say after the limit]]")

        ana.hears("after the limit")
    assert ana.heard() == ["after the limit"]


@reported("microsoft/agent-framework#6956", "openabdev/openab#871", "earendil-works/pi-chat#10", promise="P8")
def test_markup_that_the_platform_refuses_arrives_as_text(world: World) -> None:
    """The model writes a stray asterisk: the platform can't parse it, refuses the message, and the person sees
    nothing.
    """
    ana = world.person()
    refusal = "Bad Request: can't parse entities: Can't find end of the entity starting at byte offset 4"
    with world.fault("status", status=400, description=refusal, method="sendMessage", chat=ana.id, times=1):
        ana.says("[[say a *stray asterisk, snake_case and `half of code]]")

        assert "stray asterisk, snake_case and" in ana.hears("stray")


@reported("0xMaxMa/claude-gateway#78", "nearai/ironclaw#2903", promise="P8")
def test_an_answer_of_any_length_arrives_whole(world: World) -> None:
    """The answer is longer than the platform takes: it is refused, and the person waits for ever."""
    ana = world.person()
    ana.says("[[big 9000]]")

    ana.hears("x")
    world.settle()
    assert "".join(ana.heard()) == "x" * 9000


@reported("openclaw/openclaw#42589", "omniaura/omniclaw#342", promise="P6")
def test_an_overloaded_model_is_asked_again(world: World) -> None:
    """The model's host is overloaded for a moment: the bot stays silent, or says sorry and counts the message as
    done.
    """
    ana = world.person()
    ana.says("[[status 529 times=2]] [[say at last]]")

    ana.hears("at last")
    assert ana.heard() == ["at last"]


@reported("openclaw/openclaw#120132", "openclaw/openclaw#121058", promise="P6")
def test_a_model_that_says_nothing_is_no_answer(world: World) -> None:
    """The model's answer is well-formed and empty: the turn counts as done, and the person reads nothing at all."""
    ana = world.person()
    ana.says("[[empty]]")

    ana.hears("Sorry")
    world.settle()
    assert len(ana.heard()) == 1


@reported("wazuh/wazuh-dashboard#1530", "anomalyco/opencode#26170", "anthropics/claude-code#83183", promise="P6")
def test_half_of_an_answer_is_not_taken_for_a_whole_one(world: World) -> None:
    """The connection to the model ends in the middle of an answer: the person reads half a sentence as if it were
    all.
    """
    ana = world.person()
    ana.says("[[cut times=1]] [[end times=1]] [[say the whole of it]]")

    ana.hears("the whole of it")
    assert ana.heard() == ["the whole of it"]


@reported("NousResearch/hermes-agent#33817", "agentscope-ai/QwenPaw#5995", "dam-agents/dam#3238", promise="P8")
def test_everything_of_a_burst_reaches_the_agent(world: World) -> None:
    """Messages that come while the agent works overwrite each other in one slot, or fall out of a short queue."""
    ana = world.person()
    with world.model.hold("the first of a burst"):
        ana.says("the first of a burst")
        world.model.is_asked("the first of a burst")
        for number in range(40):
            ana.says(f"of the burst {number:02}.")
        world.delivered()

    ana.hears("of the burst 39.")
    said = "\n".join(ana.heard())
    assert [number for number in range(40) if f"of the burst {number:02}." not in said] == []


@reported("openclaw/openclaw#29497", promise="P6")
def test_a_message_behind_a_turn_that_times_out_is_answered(world: World) -> None:
    """A turn runs into its time limit: what had queued behind it is thrown away with it."""
    ana = world.person()
    ana.says("[[hang times=1]] [[say the slow one]]")
    world.model.is_asked("the slow one")
    ana.says("[[say and the one behind]]")

    ana.hears("and the one behind")
    assert "the slow one" in "\n".join(ana.heard())


@reported("TelegramBots/Telegram.Bot#171", "windkh/node-red-contrib-telegrambot#105", promise="P8", needs="groups")
def test_a_group_that_becomes_a_supergroup_gets_its_answer(world: World) -> None:
    """A group becomes a supergroup with a new number while the agent thinks: the answer goes to the old number and
    is refused.
    """
    ana = world.person()
    group = world.group(ana)
    with world.model.hold("before the move"):
        ana.says(f"@{world.around.telegram_username} before the move", group)
        world.model.is_asked("before the move")
        moved = str(world.control("POST", f"/telegram/chats/{group}/migrate", {})["chat"])

    world.hears(moved, "before the move")


@reported("discord-tickets/bot#250", "Pycord-Development/pycord#226", promise="P1", needs="discord")
def test_a_command_whose_answer_takes_long_is_acknowledged_before(world: World) -> None:
    """Discord gives an app three seconds: the model takes longer, and the person reads that the application did
    not respond.
    """
    person, channel = world.channel()
    with world.model.hold("of a slow command"):
        acknowledged = world.command(person, channel, "of a slow command")
        assert (acknowledged["state"], acknowledged["status"]) == ("delivered", 200)

    world.hears(channel, "of a slow command", "discord")


@reported("qhkm/zeptoclaw#456", "openclaw/openclaw#119080", promise="P6")
def test_a_person_is_told_when_nothing_helps(world: World) -> None:
    """Every attempt fails, and only the log knows."""
    ana = world.person()
    ana.says("[[status 500]] of no use")

    ana.hears("Sorry")
    world.settle()
    assert len(ana.heard()) == 1
