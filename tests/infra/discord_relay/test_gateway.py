"""The relay against a Gateway that cuts, repeats, refuses and goes silent: what people typed arrives once, in order."""

import asyncio
import json

import pytest

from infra.discord_relay.state import StateFile
from shared.core.errors import ConfigInvalid
from tests.infra.discord_relay.conftest import APP, message


async def talk(world, *numbers):
    for number in numbers:
        await world.gateway.say("MESSAGE_CREATE", message(number))


def test_what_people_type_is_posted_signed_and_in_order(play):
    async def scenario(world):
        async with world.relay():
            await world.gateway.connected.wait()
            await talk(world, *range(20))
            await world.until(lambda: len(world.ingest.frames) == 20)
        assert world.ingest.texts() == [f"text {n}" for n in range(20)]
        assert len(set(world.ingest.ids)) == 20
        (identify,) = [data for op, data in world.gateway.ops if op == 2]
        assert (identify["token"], identify["intents"]) == ("the.token", 1 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13)
        await world.until(lambda: world.gateway.closes == [4000])  # which keeps the session for the next start

    play(scenario)


@pytest.mark.parametrize("code", [None, 4000, 4001, 4002, 4003, 4005, 4008, 1001])
def test_a_cut_connection_is_resumed_and_nothing_is_lost_or_doubled(play, code):
    async def scenario(world):
        async with world.relay():
            await world.gateway.connected.wait()
            await talk(world, 1)
            await world.until(lambda: world.ingest.texts() == ["text 1"])
            await world.gateway.cut(code)
            await talk(world, 2)
            await world.gateway.connected.wait()
            await talk(world, 3)
            await world.until(lambda: len(world.ingest.frames) == 3)
        assert world.ingest.texts() == ["text 1", "text 2", "text 3"]
        assert (world.gateway.count(2), world.gateway.count(6)) == (1, 1)

    play(scenario)


@pytest.mark.parametrize(
    ("payload", "identifies"), [({"op": 7}, 1), ({"op": 9, "d": True}, 1), ({"op": 9, "d": False}, 2)]
)
def test_reconnect_and_invalid_session_are_obeyed(play, payload, identifies):
    async def scenario(world):
        async with world.relay():
            await world.gateway.connected.wait()
            world.gateway.connected.clear()
            await world.gateway.send(payload)
            await world.gateway.connected.wait()
            await talk(world, 1)
            await world.until(lambda: world.ingest.texts() == ["text 1"])
        assert (world.gateway.count(2), world.gateway.count(6)) == (identifies, 2 - identifies)

    play(scenario)


@pytest.mark.parametrize("code", [4007, 4009])
def test_a_session_that_is_over_is_followed_by_a_new_one(play, code):
    async def scenario(world):
        async with world.relay():
            await world.gateway.connected.wait()
            await world.gateway.cut(code)
            await world.gateway.connected.wait()
        assert (world.gateway.count(2), world.gateway.count(6)) == (2, 0)

    play(scenario)


def test_a_resume_that_is_refused_is_followed_by_a_new_session(play):
    async def scenario(world):
        async with world.relay():
            await world.gateway.connected.wait()
            world.gateway.refuses_resume = True
            await world.gateway.cut()
            await world.gateway.connected.wait()
            await talk(world, 1)
            await world.until(lambda: world.ingest.texts() == ["text 1"])
        assert (world.gateway.count(2), world.gateway.count(6)) == (2, 1)

    play(scenario)


@pytest.mark.parametrize(
    ("code", "word"), [(4004, "DISCORD_BOT_TOKEN"), (4014, "Message Content Intent"), (4013, "release")]
)
def test_a_fatal_close_ends_the_relay_with_what_to_do(play, code, word):
    async def scenario(world):
        world.gateway.close_at_identify = code
        async with world.relay() as task:
            with pytest.raises(ConfigInvalid, match=word):
                await asyncio.wait_for(task, 20)
        assert world.gateway.count(2) == 1

    play(scenario)


def test_a_connection_that_answers_no_heartbeat_is_left_and_resumed(play):
    async def scenario(world):
        world.gateway.heartbeat_ms = 20
        async with world.relay():
            await world.gateway.connected.wait()
            await world.until(lambda: world.gateway.count(1) >= 2)  # answered, so the connection stays
            assert world.gateway.count(6) == 0
            world.gateway.acks = False
            await world.until(lambda: world.gateway.count(6) == 1)
        await world.until(lambda: world.gateway.closes[:1] == [4000])

    play(scenario)


def test_a_heartbeat_that_is_asked_for_is_sent_at_once(play):
    async def scenario(world):
        async with world.relay():
            await world.gateway.connected.wait()
            await talk(world, 1)
            await world.until(lambda: world.ingest.frames)
            before = world.gateway.count(1)
            await world.gateway.send({"op": 1})
            await world.until(lambda: world.gateway.count(1) > before)
        assert [data for op, data in world.gateway.ops if op == 1][-1] == 2

    play(scenario)


def test_a_bot_with_few_starts_left_today_begins_no_session(play):
    """Discord resets the token of a bot that has used up all of them."""

    async def scenario(world):
        world.gateway.remaining = 4
        async with world.relay():
            await world.until(lambda: 42.0 in world.slept)
            assert world.gateway.ops == []
            world.gateway.remaining = 1000
            await world.gateway.connected.wait()

    play(scenario)


def test_while_ingest_is_down_nothing_is_lost_and_no_more_than_the_bound_is_kept(play):
    async def scenario(world):
        world.ingest.is_down = True
        async with world.relay(most=10):
            await world.gateway.connected.wait()
            await talk(world, *range(50))
            await world.ingest.came.wait()
            await world.until(lambda: world.gateway.closes)  # it stopped reading, and Discord keeps the rest
            world.ingest.is_down = False
            await world.until(lambda: len(world.ingest.frames) >= 50)
        assert world.ingest.texts() == [f"text {n}" for n in range(50)]

    play(scenario)


def test_a_restart_resumes_and_posts_again_what_ingest_did_not_have(play):
    async def scenario(world):
        async with world.relay():
            await world.gateway.connected.wait()
            await talk(world, 1)
            await world.until(lambda: world.ingest.texts() == ["text 1"])
            world.ingest.is_down = True
            tries = world.ingest.tries
            await talk(world, 2, 3)
            await world.until(lambda: world.ingest.tries > tries)
        await talk(world, 4)
        world.ingest.is_down = False
        async with world.relay():
            await world.until(lambda: len(world.ingest.frames) >= 4)
        assert world.ingest.texts() == ["text 1", "text 2", "text 3", "text 4"]
        assert (world.gateway.count(2), world.gateway.count(6)) == (1, 1)
        assert world.state.stat().st_mode & 0o077 == 0
        assert "the.token" not in world.state.read_text()

    play(scenario)


def test_a_restart_begins_after_what_ingest_has_and_not_after_what_was_read(play):
    async def scenario(world):
        world.ingest.goes_down_after = 1
        async with world.relay():
            await world.gateway.connected.wait()
            await talk(world, 1, 2, 3)
            await world.until(lambda: world.ingest.tries > 2)
        world.ingest.goes_down_after = None
        async with world.relay():
            await world.until(lambda: len(world.ingest.frames) >= 3)
        assert world.ingest.texts() == ["text 1", "text 2", "text 3"]

    play(scenario)


def test_a_repeated_frame_has_the_same_id(play):
    """A process that was killed wrote its place when the session began: ingest gets frames again, and knows them."""

    async def scenario(world):
        async with world.relay():
            await world.gateway.connected.wait()
            await world.until(lambda: StateFile(world.state).read().seq == 1)  # no heartbeat was due yet
            begun = world.state.read_bytes()
            await talk(world, 1)
            await world.until(lambda: world.ingest.frames)
        world.state.write_bytes(begun)
        async with world.relay():
            await world.until(lambda: len(world.ingest.frames) == 2)
        assert len(set(world.ingest.ids)) == 1

    play(scenario)


def test_the_state_of_another_bot_is_not_used(play):
    async def scenario(world):
        world.state.write_text(json.dumps({"bot": "other/1", "session_id": "x", "resume_url": "http://x", "seq": 7}))
        async with world.relay():
            await world.gateway.connected.wait()
        assert (world.gateway.count(2), world.gateway.count(6)) == (1, 0)

    play(scenario)


NOT_RELAYED = {
    "of a bot": message(1, author={"id": APP, "bot": True}),
    "of a webhook": message(1, webhook_id="5"),
    "without the intent for contents": message(1, content=""),
}


@pytest.mark.parametrize("data", NOT_RELAYED.values(), ids=NOT_RELAYED)
def test_what_no_agent_may_read_is_not_posted_and_does_not_hold_the_rest(play, data):
    async def scenario(world):
        async with world.relay():
            await world.gateway.connected.wait()
            await world.gateway.say("MESSAGE_CREATE", data)
            await world.gateway.say("TYPING_START", {"channel_id": "200"})
            await talk(world, 2)
            await world.until(lambda: world.ingest.frames)
        assert world.ingest.texts() == ["text 2"]

    play(scenario)


def test_what_happens_in_a_thread_names_its_parent(play):
    async def scenario(world):
        gateway = world.gateway
        gateway.channels["303"] = {"id": "303", "type": 11, "parent_id": "203"}
        gateway.channels["204"] = {"id": "204", "type": 0, "parent_id": "category"}
        async with world.relay():
            await gateway.connected.wait()
            threads = [{"id": "301", "parent_id": "201"}]
            await gateway.say("GUILD_CREATE", {"id": "1", "channels": [{"id": "200"}], "threads": threads})
            await gateway.say("THREAD_CREATE", {"id": "302", "parent_id": "202"})
            for channel in ("200", "301", "302"):
                await gateway.say("MESSAGE_CREATE", message(1, channel_id=channel, guild_id="1"))
            await gateway.say("MESSAGE_CREATE", message(1, channel_id="303", guild_id="1", channel_type=11))
            for channel in ("303", "204", "204", "dm"):
                deleted = {"id": "1", "channel_id": channel, **({} if channel == "dm" else {"guild_id": "1"})}
                await gateway.say("MESSAGE_DELETE", deleted)
            await world.until(lambda: len(world.ingest.frames) == 8)
        parents = [frame.get("x_parent_id") for frame in world.ingest.frames]
        assert parents == [None, "201", "202", "203", "203", None, None, None]
        assert gateway.asked == ["303", "204"]
        assert StateFile(world.state).read().parents["301"] == "201"  # a resumed session does not say it again

    play(scenario)
