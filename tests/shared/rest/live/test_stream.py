"""What a stream of events says: which rows, under which names, and from where."""

import asyncio

import pytest

from functions import api
from shared.db.engine.connection import transaction
from shared.db.queue import epochs, messages
from shared.db.roster import teams
from shared.db.roster.teams import Team
from shared.queue import turns
from shared.queue.teamwork import mailbox, rooms
from shared.queue.turns import TurnReply
from tests.api_client import frames, get, stream, whole
from tests.support import NOW, answer, begin_epoch, make_agent, put, take


@pytest.fixture
def turn(conn):
    """A message and its settled turn, as ``dispatch`` stores them."""

    def settle(*texts, **fields):
        put(conn, "hello " + "x" * 200, **fields)
        with transaction(conn):
            messages.announce(conn)
        claim = take(conn, **{name: fields[name] for name in ("agent", "chat") if name in fields})
        with transaction(conn):
            turns.settle(conn, claim, [TurnReply(text, claim.asked[0]) for text in texts], None, now_ms=NOW + 7)
        return claim.asked[0].message_id

    return settle


# -- the position of a reader


def test_a_stream_begins_with_the_next_event(serving, append):
    append("old")

    async def go():
        async with serving(api), stream() as queue:
            append("new")
            return await frames(queue, 1)

    assert asyncio.run(go()) == [("2", "new", {"type": "new", "timestamp": 5, "messageId": "m", "fact": 1})]


def test_a_returning_reader_misses_no_event_and_gets_none_twice(serving, append):
    async def go():
        seen = []
        append(*(f"e{number}" for number in range(3)))
        for round_ in range(4):  # each with a service of its own, as after a restart
            async with (
                serving(api),
                stream(last_event_id=seen[-1] if seen else "0") as queue,
            ):
                append(f"during{round_}")
                seen += [found[0] for found in await whole(queue, 4 if round_ == 0 else 2)]
            append(f"between{round_}")
        return seen

    assert asyncio.run(go()) == [str(number) for number in range(1, 11)]


def test_after_a_long_absence_the_events_come_in_batches_without_a_gap(serving, append):
    append(*["e"] * 1203)

    async def go():
        async with serving(api), stream(last_event_id="0") as queue:
            return [found[0] for found in await whole(queue, 1203)]

    assert asyncio.run(go()) == [str(number) for number in range(1, 1204)]


def test_after_a_restore_a_reader_that_was_ahead_misses_no_new_event(serving, append, conn):
    """Also one that comes back late: the events that it had seen, 2 to 4, were lost with the disk."""
    append("known")
    begin_epoch(conn, now_ms=5)
    append(*["new"] * 6)

    async def go():
        async with serving(api), stream(last_event_id="4") as queue:
            return await whole(queue, 7)

    (began, _, data), *new = asyncio.run(go())
    assert (began, data["after"]) == (str(1 + epochs.STEP), 1)
    assert [found[:2] for found in new] == [(str(1 + epochs.STEP + number), "new") for number in range(1, 7)]


def test_a_reader_with_an_id_beyond_all_goes_on(serving, append):
    """It read another database."""
    append("e")

    async def go():
        async with serving(api), stream(last_event_id="5000") as queue:
            append("after")
            return await whole(queue, 1)

    assert asyncio.run(go())[0][:2] == ("2", "after")


@pytest.mark.parametrize("given", ["x", "-1", "1.5", "9" * 5000, "²"])
def test_an_invalid_last_event_id_is_refused(serving, given):
    reply = get(serving, "/api/events/stream", headers={"last-event-id": given.encode()})
    assert reply.status_code == 400


def test_only_chosen_names_are_sent_and_each_carries_its_id(serving, append):
    async def go():
        async with serving(api):
            async with stream("types=b,c", last_event_id="0") as queue:
                append("a", "b", "a", "c")
                first = await whole(queue, 2)
            async with stream("types=b,c", last_event_id=first[0][0]) as queue:
                return first, await whole(queue, 1)

    first, again = asyncio.run(go())
    assert [found[:2] for found in first] == [("2", "b"), ("4", "c")]
    assert [found[:2] for found in again] == [("4", "c")]


# -- the names and data of both generations of clients


def test_a_row_is_sent_under_all_its_names_and_ends_with_its_id(serving, turn):
    message_id = turn("one", "two")

    async def go():
        async with serving(api), stream(last_event_id="0") as queue:
            return await frames(queue, 15)

    found = asyncio.run(go())
    begun = {"messageId": message_id, "agent": "assistant", "channel": "telegram"}
    asked = {"sender": "Ana", "message": ("hello " + "x" * 200)[:120]}
    who = {"agentId": "assistant", "agentName": "Assistant"}

    def ready(id_, text, response):
        done = {"sender": "Ana", "agentId": "assistant", "responseLength": 3, "responseText": text}
        return [
            (None, "agent:progress", {**who, "text": text, "messageId": message_id}),
            (None, "message:done", {"channel": "telegram", **done, "messageId": message_id}),
            (id_, "response_ready", {**begun, "responseId": response, **done}),
        ]

    said = {**who, "role": "assistant", "channel": "telegram", "sender": "Ana", "messageId": message_id}
    said |= {"content": "one\n\ntwo", "isTeamMessage": False}
    batch = {"batch": [message_id]}
    expected = [
        (None, "message_enqueued", {**begun, **asked}),
        (None, "message:incoming", {**begun, **asked}),
        (None, "agent_routed", {**who, "provider": "echo", "model": "", "isTeamRouted": False}),
        ("1", "message_received", {**begun, **asked}),
        (None, "agent:invoke", {**who, "fromAgent": None, "messageId": message_id}),
        ("2", "chain_step_start", {**begun, **who, "fromAgent": None, **batch, "attempt": 1}),
        *ready("3", "one", 1),
        *ready("4", "two", 2),
        (None, "agent_message", said),
        (None, "agent:response", said),
        ("5", "chain_step_done", {**begun, **who, **batch, "answers": 2, "responseLength": 6}),
    ]
    expected[-1][2]["responseText"] = "one\n\ntwo"
    assert [(id_, name) for id_, name, _ in found] == [(id_, name) for id_, name, _ in expected]
    for (_, name, data), (_, _, wanted) in zip(found, expected, strict=True):
        assert data.pop("type") == name
        assert data.pop("timestamp") in (NOW, NOW + 7, NOW + 8)
        assert data == wanted, name


def test_a_message_between_agents_is_not_incoming_but_is_an_agent_message(serving, turn, conn):
    make_agent(conn, "other")
    turn("done", from_agent="other")

    async def go():
        async with serving(api), stream(last_event_id="0") as queue:
            return await frames(queue, 5)

    found = asyncio.run(go())
    assert [name for _, name, _ in found] == [
        *("agent_message", "agent:response", "message_received", "agent:invoke", "chain_step_start")
    ]
    said = found[1][2]
    assert (said["agentId"], said["agentName"], said["isTeamMessage"]) == ("other", "Other", True)
    assert said["content"] == "hello " + "x" * 200
    assert found[3][2]["fromAgent"] == "other"


def test_an_event_with_missing_data_does_not_stop_the_stream(serving, append):
    known = ["message_received", "chain_step_start", "chain_step_done", "response_ready", "chain_handoff", "room_line"]

    async def go():
        async with serving(api), stream(last_event_id="0") as queue:
            append(*known)
            return [found[1] for found in await whole(queue, len(known))]

    assert asyncio.run(go()) == known


def test_a_message_between_agents_is_a_mention(serving, conn):
    make_agent(conn, "other")
    with transaction(conn):
        mailbox.send(conn, "assistant", "other", "please look", now_ms=NOW)

    async def go():
        async with serving(api), stream(last_event_id="0") as queue:
            return await frames(queue, 2)

    (_, name, data), (_, own, _) = asyncio.run(go())
    assert (name, own) == ("agent:mention", "chain_handoff")
    assert (data["fromAgent"], data["toAgent"]) == ("assistant", "other")


def test_a_line_in_a_room_is_one_event_for_any_number_of_members(serving, conn):
    for agent in ("a", "b"):
        make_agent(conn, agent)
    team = Team("crew", "Crew", "a", ("assistant", "a", "b"))
    with transaction(conn):
        teams.save(conn, team, now_ms=NOW)
        rooms.post(conn, team, "from a person", now_ms=NOW)
        rooms.post(conn, team, "from an agent", from_agent="a", now_ms=NOW)
        messages.announce(conn)

    async def go():
        async with serving(api), stream(last_event_id="0") as queue:
            return await frames(queue, 9)

    found = asyncio.run(go())
    assert [name for _, name, _ in found] == [
        *("room_line", "agent_message", "agent:response", "room_line"),
        *["message_received"] * 5,
    ]
    assert (found[2][2]["agentId"], found[2][2]["content"]) == ("a", "from an agent")


def test_a_proactive_response_is_announced_to_the_channels_clients(serving, conn):
    answer(conn, "good morning", agent="assistant")

    async def go():
        async with serving(api), stream(last_event_id="0") as queue:
            return await frames(queue, 2)

    found = asyncio.run(go())
    assert [name for _, name, _ in found] == ["message:done", "response_ready"]
    assert found[0][2]["channel"] == "telegram"


def test_a_long_answer_is_cut_and_has_the_length_of_the_whole(serving, turn):
    turn("y" * 5000)

    async def go():
        async with serving(api), stream("types=message:done,agent:response", last_event_id="0") as queue:
            return await frames(queue, 2)

    done, response = asyncio.run(go())
    assert (len(done[2]["responseText"]), done[2]["responseLength"]) == (4000, 5000)
    assert len(response[2]["content"]) == 4000


def test_an_event_of_a_pruned_message_is_still_sent(serving, turn, conn):
    turn("one")
    with transaction(conn):
        conn.execute("DELETE FROM responses")
        conn.execute("DELETE FROM messages")

    async def go():
        async with serving(api), stream(last_event_id="0") as queue:
            return await whole(queue, 4)

    assert [found[1] for found in asyncio.run(go())] == [
        *("message_received", "chain_step_start", "response_ready", "chain_step_done")
    ]
