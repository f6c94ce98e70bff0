import asyncio
from itertools import pairwise

import pytest

from functions import api
from shared.db.engine.connection import transaction
from shared.db.queue import events, messages
from shared.db.roster import teams
from shared.db.roster.teams import Team
from shared.queue import turns
from shared.queue.teamwork import mailbox, rooms
from shared.queue.turns import TurnReply
from shared.rest.http.event_stream import EventStream
from shared.rest.live.feed import EventBatch, EventFeed
from shared.rest.live.frames import EventFrames
from shared.runtime.kick import Kicker
from tests.api_client import frames, get, stream, whole
from tests.support import NOW, answer, make_agent, put, take


@pytest.fixture
def append(conn, environment):
    """Append events as another process does, with a kick."""
    kicker = Kicker(environment)

    def happen(*types):
        with transaction(conn):
            for type_ in types:
                events.append(conn, type_, now_ms=5, message_id="m", data={"fact": 1})
        kicker.kick("api")

    yield happen
    kicker.close()


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


def test_after_a_restore_a_reader_with_a_lost_id_goes_on(serving, append):
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


# -- many readers


def test_many_readers_cause_one_read_of_each_row(serving, append, conn):
    """Counts the statements of the connection: one read serves any number of readers."""
    statements = []

    async def go():
        async with serving(api):
            service = api._service.get()
            service.reader.trace_v2(1, lambda event: statements.append(event["sql"]))
            feeds = [service.feed.read(0) for _ in range(50)]
            reading = [asyncio.create_task(anext(each)) for each in feeds]
            await asyncio.sleep(0)
            append("first")
            await asyncio.wait_for(asyncio.gather(*reading), 60)
            statements.clear()
            reading = [asyncio.create_task(anext(each)) for each in feeds]
            await asyncio.sleep(0)
            append("second")
            found = await asyncio.wait_for(asyncio.gather(*reading), 60)
            for each in feeds:
                await each.aclose()
            assert service.feed.readers == 0
            return found

    found = asyncio.run(go())
    assert all(b"id: 2\nevent: second" in each for each in found)
    assert sum("FROM events" in sql for sql in statements) <= 3


def test_a_reader_behind_the_kept_batches_reads_the_rows(conn):
    async def go():
        news = asyncio.Event()

        async def wait(_):
            await news.wait()
            news.clear()

        feed = EventFeed(conn, wait, batch=10, kept_bytes=1)
        slow, quick = feed.read(0), feed.read(0)
        with transaction(conn):
            events.append(conn, "e", now_ms=1)
        seen = {"slow": await anext(slow), "quick": await anext(quick)}
        for _ in range(10):
            with transaction(conn):
                for _ in range(10):
                    events.append(conn, "e", now_ms=1)
            news.set()
            seen["quick"] += await asyncio.wait_for(anext(quick), 60)
        while seen["quick"].count(b"id:") < 101:
            seen["quick"] += await asyncio.wait_for(anext(quick), 60)
        while seen["slow"].count(b"id:") < 101:
            seen["slow"] += await asyncio.wait_for(anext(slow), 60)
        kept = feed.kept_bytes
        await slow.aclose()
        await quick.aclose()
        return seen, kept

    seen, kept = asyncio.run(go())
    assert kept < 1000
    for text in seen.values():
        numbers = [int(line[4:]) for line in text.decode().splitlines() if line.startswith("id: ")]
        assert numbers == list(range(1, 102))
        assert all(after == before + 1 for before, after in pairwise(numbers))


def test_a_batch_is_sent_from_the_position_of_the_reader():
    batch = EventBatch(4, tuple(EventFrames(id_, (("e", b"event: e\n\n"),)) for id_ in (5, 7, 8)))
    told = {last: batch.since(last, None).count(b"event") for last in range(3, 9)}
    assert told == {3: 3, 4: 3, 5: 2, 6: 2, 7: 1, 8: 0}
    assert batch.since(4, {"other"}) == b""


def test_a_comment_during_silence_carries_the_position(conn):
    """A reader that got no event of its names continues from there when it comes back."""
    with transaction(conn):
        events.append(conn, "other", now_ms=1)

    async def go():
        async def wait(seconds):
            await asyncio.sleep(min(seconds, 0.02))

        feed = EventFeed(conn, wait, comment_every_s=0.05)
        reading = feed.read(0, frozenset(["mine"]))
        found = [await asyncio.wait_for(anext(reading), 60) for _ in range(2)]
        await reading.aclose()
        return found

    assert asyncio.run(go()) == [b"id: 1\n: still here\n\n", b": still here\n\n"]


def test_streams_end_when_the_function_does(serving, conn):
    async def go():
        async with serving(api):
            reading = asyncio.create_task(anext(api._service.get().feed.read(0), "ended"))
            await asyncio.sleep(0.01)
            assert not reading.done()
        return await asyncio.wait_for(reading, 10)

    assert asyncio.run(go()) == "ended"


def _reading(feed, send, receive):
    stream = EventStream(feed.read(0), patience_s=0.05)
    return asyncio.create_task(stream({"type": "http"}, receive, send))


async def _never(*_):
    await asyncio.sleep(300)


def test_a_reader_that_reads_nothing_is_disconnected(conn):
    with transaction(conn):
        events.append(conn, "e", now_ms=1)

    async def go():
        feed = EventFeed(conn, _never)

        async def stuck(message):
            if message["type"] == "http.response.body":
                await _never()

        await asyncio.wait_for(_reading(feed, stuck, _never), 60)
        return feed.readers

    assert asyncio.run(go()) == 0


def test_a_reader_that_disconnects_leaves_nothing_behind(conn):
    async def go():
        feed = EventFeed(conn, _never)
        gone = asyncio.Event()

        async def leave():
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(_):
            pass

        reading = _reading(feed, send, leave)
        while not feed.readers:  # noqa: ASYNC110 - no event announces a reader
            await asyncio.sleep(0)
        gone.set()
        await asyncio.wait_for(reading, 60)
        return feed.readers, len(asyncio.all_tasks())

    assert asyncio.run(go()) == (0, 1)


def test_a_disconnect_in_the_instant_of_an_event_is_not_lost(conn):
    async def go():
        woken = asyncio.Event()

        async def news(_):
            await woken.wait()
            woken.clear()

        feed = EventFeed(conn, news)
        reading = asyncio.create_task(anext(feed.read(0)))
        await asyncio.sleep(0.01)
        with transaction(conn):
            events.append(conn, "e", now_ms=1)
        woken.set()
        while feed.kept_bytes == 0:  # noqa: ASYNC110 - the same turn of the loop that wakes the reader
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait((reading,), timeout=60)
        return reading.cancelled()

    assert asyncio.run(go())


def test_the_last_chosen_frame_carries_the_id():
    row = EventFrames(7, (("a", b"event: a\n\n"), ("b", b"event: b\n\n"), ("c", b"event: c\n\n")))
    assert row.frames() == b"event: a\n\nevent: b\n\nid: 7\nevent: c\n\n"
    assert row.frames({"a", "b"}) == b"event: a\n\nid: 7\nevent: b\n\n"
    assert row.frames({"d"}) == b""
