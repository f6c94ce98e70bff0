"""Section 4: a hundred agents at once, forty thousand messages that wait for one agent, and an agent that chatters."""

import asyncio
import itertools
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import uvloop

from shared.db.engine.connection import open_connection, rows
from tests.benchmarks.harness import client
from tests.benchmarks.harness.client import Connection, connections
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, memory_mb, must_be, percentile
from tests.benchmarks.harness.store import Place, Store, command_agent, echo_agent, wire
from tests.benchmarks.harness.system import System
from tests.benchmarks.turns import Answers

_AGENTS = 100
_FIRST_CHAT = 20_000
_SLOW_S = 0.05  # for each message: a turn of ten takes half a second, not the five seconds of the bar
_CLIENTS = 16
_LIMIT_S = 400.0
_ANSWERS = 50  # alone and beside one that chatters
_NUMBER = re.compile(r"(\d+)$")


def chats(scale: Scale) -> Iterator[Line]:
    """Most messages wait at the start, the others come in while the agents work."""
    chat_count, each, live = scale.few(1000, 100), scale.few(100, 20), scale.few(20, 5)
    with System(scale.place("chats"), {"POSTROOM_MAX_CONCURRENT_TURNS": str(_AGENTS)}) as system:
        pairs = [(echo_agent(f"agent-{number % _AGENTS}"), _FIRST_CHAT + number) for number in range(chat_count)]
        places = wire(system.db, pairs)
        _put(system.db, places, range(1, each - live + 1))
        system.start("ingest", "dispatch")
        begun = time.perf_counter()
        times = uvloop.run(_live(system, chat_count, each - live, each))
        took = time.perf_counter() - begun
        memory = memory_mb(system.pid("dispatch"), "VmHWM")
        out_of_order, missing = _order(system.db, chat_count, each)
    what = f"{chat_count:,} chats of {each} messages, {_AGENTS} agents at once, turns of {_SLOW_S * 10:g} s"
    yield must_be(
        f"{what}: out of order, missing",
        f"{out_of_order}, {missing}",
        is_met=out_of_order == missing == 0,
        bar="0, 0",
        beside=f"{chat_count * each / took:,.0f} messages/s",
    )
    worst = max(percentile(found, 0.99) for found in times.values())
    together = [each for found in times.values() for each in found]
    yield at_most(
        f"the same, ingest p99 meanwhile, {_CLIENTS} at a time, of the agent with the worst",
        Spread.of([worst]),
        50,
        "ms",
        beside=f"of {len(together):,} p50 {percentile(together, 0.5):.1f} ms, p99 {percentile(together, 0.99):.1f} ms",
        reason="dispatch works at its limit on the other core, and this client takes its share",
    )
    yield at_most("the same, memory of dispatch, the most", Spread.of([memory]), 150, "MB")


def _put(db: Path, places: list[Place], numbers: range) -> None:
    """Store the messages with these numbers in every chat, the chats in turn."""
    store = Store(db, "NORMAL", places=places)
    pending = ((number, place) for number in numbers for place in range(len(places)))
    while some := list(itertools.islice(pending, 1000)):
        store.put_many([(place, _text(number)) for number, place in some])
    store.conn.close()


def _text(number: int) -> str:
    return f"!slow {_SLOW_S} number {number}"


async def _live(system: System, chat_count: int, done: int, each: int) -> dict[int, list[float]]:
    """Send the other messages through ingest; milliseconds by agent. Returns when everything is answered."""
    answers = Answers(system)
    times: dict[int, list[float]] = defaultdict(list)
    # Each chat belongs to one client, so its messages come in in order.
    async with connections(system.port("ingest"), _CLIENTS) as made:

        async def speak(connection: Connection, mine: range) -> None:
            for number in range(done + 1, each + 1):
                for chat in mine:
                    start = time.perf_counter()
                    update = client.webhook(chat * 1000 + number, _FIRST_CHAT + chat, _text(number))
                    if await connection.send(update) != 200:
                        raise RuntimeError(f"ingest answered {connection.body[:200]!r}")
                    times[chat % _AGENTS].append((time.perf_counter() - start) * 1000)

        jobs = (speak(connection, range(first, chat_count, _CLIENTS)) for first, connection in enumerate(made))
        await asyncio.gather(*jobs)
    await answers.reach(chat_count * each, _LIMIT_S)
    answers.close()
    return times


def _order(db: Path, chat_count: int, each: int) -> tuple[int, int]:
    """How many answers are out of order, and how many are missing."""
    conn = open_connection(db, readonly=True)
    heard: dict[int, list[int]] = defaultdict(list)
    for session, text in rows(conn, "SELECT session_id, message FROM responses ORDER BY id"):
        found = _NUMBER.search(text)
        if found is not None:
            heard[session].append(int(found[1]))
    conn.close()
    wrong = sum(later <= earlier for found in heard.values() for earlier, later in pairwise(found))
    return wrong, chat_count * each - sum(len(set(found)) for found in heard.values())


def backlog(scale: Scale) -> Iterator[Line]:
    """40 000 messages wait for one agent, in one chat or in many, when dispatch starts."""
    count = scale.few(40_000, 4_000)
    for chat_count in (1, 400):
        starts, turns = [], []
        with System(scale.place(f"waiting-{chat_count}")) as system:
            places = wire(system.db, [(echo_agent("one"), _FIRST_CHAT + number) for number in range(chat_count)])
            store = Store(system.db, "NORMAL", places=places)
            for first in range(0, count, 1000):
                store.put_many([((first + each) % chat_count, f"message {first + each}") for each in range(1000)])
            store.conn.close()
            for _ in range(scale.rounds):
                started, first_turn = uvloop.run(_start(system))
                starts.append(started)
                turns.append(first_turn)
        where = "in one chat" if chat_count == 1 else f"in {chat_count} chats"
        yield at_most(
            f"{count:,} messages of one agent wait {where}: dispatch starts",
            Spread.of(starts),
            0.5,
            "s",
            reason="an interpreter and its imports take 0.3 s of a quiet core",
        )
        yield at_most("the same, its first turn is done after that", Spread.of(turns), 0.05, "s")


async def _start(system: System) -> tuple[float, float]:
    """Seconds to the first answered request, and from there to the first turn's answer."""
    answers = Answers(system)
    before = answers.count()
    begun = time.perf_counter()
    await asyncio.to_thread(system.start, "dispatch")
    started = time.perf_counter()
    heard = await answers.reach(before + 1)
    await asyncio.to_thread(system.stop, "dispatch")
    answers.close()
    return started - begun, max(0.0, heard - started)


def chatter(scale: Scale) -> Iterator[Line]:
    """An agent's program writes lines as fast as it can, and another agent answers meanwhile, one message at a time."""
    count, alone, beside = scale.few(100_000, 2_000), [], []
    for number in range(scale.rounds):
        with System(scale.place(f"chatter-{number}")) as system:
            line = '{"type": "progress", "note": "line %.0f"}'  # a turn with so many texts is ended early
            chatty = command_agent("chatty", "seq", "-f", line, str(count))
            wire(system.db, [(chatty, _FIRST_CHAT), (echo_agent("other"), _FIRST_CHAT + 1)])
            system.start("ingest", "dispatch")
            quiet, busy = uvloop.run(_beside_chatter(system))
            alone.append(quiet)
            beside.append(busy)
    longest = [max(busy) - max(quiet) for busy, quiet in zip(beside, alone, strict=True)]
    yield at_most(
        f"an agent writes {count:,} lines as fast as it can: another agent's longest answer, beyond its longest alone",
        Spread.of(longest),
        20,
        "ms",
        beside=f"p50 {Spread.of(percentile(each, 0.5) for each in beside).median:.1f} ms, alone "
        f"{Spread.of(percentile(each, 0.5) for each in alone).median:.1f} ms; of {sum(map(len, beside))} answers",
        reason="dispatch and its programs give way to all else on both cores",
    )


async def _beside_chatter(system: System) -> tuple[list[float], list[float]]:
    """Milliseconds of the other agent's answers: alone, and as many from the chatty one's message on."""
    answers, numbers = Answers(system, "other"), itertools.count(1)
    async with connections(system.port("ingest"), 1) as (connection,):

        async def speak(chat: int) -> float:
            start, number = time.perf_counter(), next(numbers)
            if await connection.send(client.webhook(number, _FIRST_CHAT + chat, f"message {number}")) != 200:
                raise RuntimeError(f"ingest answered {connection.body[:200]!r}")
            return start

        async def answered_ms() -> float:
            before = answers.count()
            start = await speak(1)
            return (await answers.reach(before + 1, _LIMIT_S) - start) * 1000

        await answered_ms()  # its provider is imported
        alone = [await answered_ms() for _ in range(_ANSWERS)]
        await speak(0)
        beside = [await answered_ms() for _ in range(_ANSWERS)]
    answers.close()
    return alone, beside


LINES = (chats, backlog, chatter)
