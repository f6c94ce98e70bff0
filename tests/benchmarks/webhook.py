"""Section 2, webhooks: how many a second are stored, and how soon the platform gets the answer."""

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

import uvloop

from shared.db.engine.connection import open_connection, transaction
from shared.db.replica.sync import sync
from tests.benchmarks.harness import client
from tests.benchmarks.harness.client import Connection, Load, connections, load
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_least, at_most, percentile, ratios
from tests.benchmarks.harness.platform import Platform, platform
from tests.benchmarks.harness.system import System, tick

TINYAGI_PER_S = 2059  # POST /api/message, 32 connections, server alone, NORMAL; measured on a like machine
_CONCURRENCY = 32
_CONCURRENT_REPLICATED = 64
_TICK_S = 1.0
_CHATS = 50
_numbers = itertools.count(1_000_000)  # a platform uses the id of an event once


def ingest(scale: Scale) -> Iterator[Line]:
    """32 webhook calls at a time, each verified, parsed, routed and stored with FULL."""
    with System(scale.place("ingest"), {"POSTROOM_NEW_CHATS": "wire"}) as system:
        system.start("ingest")
        system.start("parse_only", package="tests.benchmarks")
        request = webhooks()
        seen: dict[str, list[Load]] = {"ingest": [], "parse_only": []}
        for number in range(scale.rounds + 1):
            for name in ("ingest", "parse_only") if number % 2 else ("parse_only", "ingest"):
                found = uvloop.run(load(system.port(name), _CONCURRENCY, scale.load_s, request))
                if number:  # the first round warms both
                    seen[name].append(found)
    rate = {name: [each.rate for each in found] for name, found in seen.items()}
    p99 = {name: Spread.of(percentile(each.times, 0.99) for each in found) for name, found in seen.items()}
    yield at_least(
        f"ingest, {_CONCURRENCY} at a time, FULL / the same without storing",
        ratios(rate["ingest"], rate["parse_only"]),
        0.7,
        beside=f"{Spread.of(rate['ingest']).median:,.0f}/s against {Spread.of(rate['parse_only']).median:,.0f}/s",
        reason="the event loop waits for the results of the writer process, and this client shares their two cores",
    )
    yield at_least(
        "the same / TinyAGI's POST /api/message (NORMAL)",
        Spread.of(each / TINYAGI_PER_S for each in rate["ingest"]),
        2,
        beside=f"TinyAGI {TINYAGI_PER_S:,}/s, measured on a like machine",
        reason="the web server alone takes nine tenths of one core; the writer process and the client share the other",
    )
    yield at_most(
        "the same, p99",
        p99["ingest"],
        12,
        "ms",
        beside=f"without storing {p99['parse_only'].median:.1f} ms; TinyAGI 180 ms",
        reason="32 requests wait for one interpreter, so the mean alone is 32 / rate",
    )


def webhooks(first_chat: int = 5000, chats: int = _CHATS) -> Callable[[], bytes]:
    """A new message with each call, from *chats* people in turn."""

    def request() -> bytes:
        number = next(_numbers)
        return client.webhook(number, first_chat + number % chats, f"message {number}")

    return request


def replicated(scale: Scale) -> Iterator[Line]:
    """A 2xx that waits for the replica on the emulator's S3, against one that does not wait."""
    place = scale.place("replicated-ingest")
    wire_new = {"POSTROOM_NEW_CHATS": "wire"}
    waiting = {**wire_new, "POSTROOM_DURABILITY": "replicated"}
    alone: dict[str, list[float]] = {"local": [], "replicated": []}
    many: dict[str, list[Load]] = {"local": [], "replicated": []}
    with System(place / "local", wire_new) as local, System(place / "replicated", waiting) as remote:
        remote.replicate(*remote.s3())
        both = {"local": local, "replicated": remote}
        local.start("ingest")
        remote.start("ingest", POSTROOM_LITESTREAM_SOCKET=str(remote.control))
        request = webhooks()
        for number in range(scale.rounds + 1):
            for name in ("local", "replicated") if number % 2 else ("replicated", "local"):
                port = both[name].port("ingest")
                one = uvloop.run(load(port, 1, scale.load_s / 2, request))
                together = uvloop.run(load(port, _CONCURRENT_REPLICATED, scale.load_s, request))
                if number:
                    alone[name].append(percentile(one.times, 0.5))
                    many[name].append(together)
                _take_all(both[name])
            asyncio.run(sync(remote.control, remote.db.absolute(), 60))
    added = [mine - theirs for mine, theirs in zip(alone["replicated"], alone["local"], strict=True)]
    yield at_most(
        "ingest, replicated, S3 on loopback: p50 alone, beyond local",
        Spread.of(added),
        5,
        "ms",
        beside=f"{Spread.of(alone['replicated']).median:.1f} ms against {Spread.of(alone['local']).median:.1f} ms",
        reason="it is Litestream's own sync, and the S3 in Python that it writes to",
    )
    rates = {name: [each.rate for each in found] for name, found in many.items()}
    p50 = {name: Spread.of(percentile(each.times, 0.5) for each in found) for name, found in many.items()}
    yield at_least(
        f"the same, {_CONCURRENT_REPLICATED} at a time: rate / local's",
        ratios(rates["replicated"], rates["local"]),
        0.5,
        beside=", ".join(
            f"{name} {Spread.of(found).median:,.0f}/s, p50 {p50[name].median:.0f} ms" for name, found in rates.items()
        ),
        reason="Litestream and the S3 in Python take a third of the two cores, which local has for itself",
    )


def _take_all(system: System) -> None:
    """As dispatch does, so that each round begins alike: of *local* many more would wait than of *replicated*."""
    conn = open_connection(system.db)
    with transaction(conn):
        conn.execute("UPDATE messages SET status = 'completed' WHERE status = 'pending'")
    conn.close()


def reply(scale: Scale) -> Iterator[Line]:
    """One message at a time through the idle system, from the webhook to our call of the platform."""

    async def measure() -> list[list[float]]:
        async with whole(scale, "reply") as (_, there, ingest):
            speak = partial(answered_ms, there, ingest)
            numbers = itertools.count(1)
            for _ in range(20):
                await speak(next(numbers))
            return [[await speak(next(numbers)) for _ in range(scale.few(60, 10))] for _ in range(scale.rounds)]

    rounds = uvloop.run(measure())
    whole_run = [each for found in rounds for each in found]
    why = "three processes take turns on two cores, and three of the four commits wait for the disk"
    yield at_most(
        "webhook in, platform called, echo agent, idle: p50",
        Spread.of(percentile(r, 0.5) for r in rounds),
        4.5,
        "ms",
        reason=why,
    )
    p99 = Spread.of([percentile(whole_run, 0.99)])
    yield at_most("the same, p99", p99, 8, "ms", beside=f"of {len(whole_run)}", reason=why)


def lost_kick(scale: Scale) -> Iterator[Line]:
    """The kicks of ingest never arrive; here the tick comes every second."""

    async def measure() -> list[float]:
        async with whole(scale, "kick", nobody_hears="ingest") as (system, there, ingest):
            ticking = asyncio.create_task(_tick_for_ever(system))
            try:
                return [
                    await answered_ms(there, ingest, number, after_s=random.uniform(0, _TICK_S))
                    for number in range(1, scale.few(20, 4))
                ]
            finally:
                ticking.cancel()

    times = uvloop.run(measure())
    longest = max(times) / (_TICK_S * 1000)
    yield at_most(
        f"a lost kick, the longest way to the platform / the tick of {_TICK_S:g} s",
        Spread.of([longest]),
        1.06,
        "",
        beside=f"p50 {percentile(times, 0.5):.0f} ms; the bar leaves 60 ms for the message itself",
    )


@contextlib.asynccontextmanager
async def whole(
    scale: Scale, name: str, *, nobody_hears: str | None = None
) -> AsyncIterator[tuple[System, Platform, Connection]]:
    """ingest, dispatch and deliver with a platform, and a connection to ingest; no process hears *nobody_hears*."""
    async with platform() as there:
        place = scale.place(name)
        with System(place, {"TELEGRAM_API_BASE": there.url, "POSTROOM_NEW_CHATS": "wire"}) as system:
            for function in ("ingest", "dispatch", "deliver"):
                deaf = {"POSTROOM_RUN_DIR": str(system.run_dir / "nowhere")} if function == nobody_hears else {}
                await asyncio.to_thread(system.start, function, **deaf)
            async with connections(system.port("ingest"), 1) as (connection,):
                yield system, there, connection


async def answered_ms(there: Platform, ingest: Connection, number: int, *, after_s: float = 0.0) -> float:
    """Milliseconds from the first byte of the webhook to our call of the platform with the answer."""
    await asyncio.sleep(after_s)
    heard = there.expect(f"You said: message {number}")
    start = time.perf_counter()
    status = await ingest.send(client.webhook(number, 1000 + number % 10, f"message {number}"))
    if status != 200:
        raise RuntimeError(f"ingest answered {status}")
    return (await asyncio.wait_for(heard, 20) - start) * 1000


async def _tick_for_ever(system: System) -> None:
    while True:
        for function in ("dispatch", "deliver"):
            await asyncio.to_thread(tick, system, function)
        await asyncio.sleep(_TICK_S)


LINES = (ingest, replicated, reply, lost_kick)
