"""Section 2, turns: ten agents, from the webhook to the row of the answer; and the CPU of a message."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import uvloop

from shared.db.engine.connection import open_connection, rows
from shared.db.roster.agents import Agent
from shared.runtime.kick import Listener
from tests.benchmarks.harness import client
from tests.benchmarks.harness.client import Load, connections, load
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_least, at_most, percentile, ratios
from tests.benchmarks.harness.store import command_agent, echo_agent, wire
from tests.benchmarks.harness.system import System
from tests.benchmarks.webhook import answered_ms, webhooks, whole

AGENTS = 10
_FIRST_CHAT = 3000
_LIMIT_S = 60.0
_ONE_BY_ONE = {"POSTROOM_BATCH_SIZE": "1"}  # a turn for each message
# Measured on a like machine: one process, NORMAL, without its copy of a directory in each run; a static C program.
_TINYAGI_ECHO = "TinyAGI, one process, NORMAL: 32 ms and 26/s as shipped, 1.8 ms and 598/s without its directory copy"
_TINYAGI_COMMAND_PER_S, _TINYAGI_COMMAND_MS = 31.7, 50.8


class Answers:
    """Hears in place of deliver that answers are ready, and reads their rows: of all agents, or of one."""

    def __init__(self, system: System, agent: str | None = None) -> None:
        self._agent = agent
        self._listener = Listener(system.run_dir, "deliver")
        self._conn = open_connection(system.db, readonly=True)
        self._heard = asyncio.Event()
        self._kicked_s = 0.0
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._kicked)

    def count(self) -> int:
        """How many answers there are; their ids have no gaps here."""
        asked = "SELECT ifnull(max(id), 0) FROM responses"
        if self._agent is not None:
            asked = "SELECT count(*) FROM responses WHERE agent = :agent"
        count: int = rows(self._conn, asked, {"agent": self._agent})[0][0]
        return count

    async def reach(self, count: int, limit_s: float = _LIMIT_S) -> float:
        """The instant at which it was heard that there are *count* answers; our own look at them does not count."""
        async with asyncio.timeout(limit_s):
            looked_s = time.perf_counter()
            while self.count() < count:
                self._heard.clear()
                looked_s = time.perf_counter()
                if self.count() < count:
                    await self._heard.wait()
                    looked_s = self._kicked_s
        return looked_s

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener.fileno())
        self._listener.close()
        self._conn.close()

    def _kicked(self) -> None:
        self._kicked_s = time.perf_counter()
        self._listener.drain()
        self._heard.set()


@contextlib.asynccontextmanager
async def agents_at_work(
    scale: Scale, name: str, make: Callable[[str], Agent], environment: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[System, Answers]]:
    """ingest and dispatch with ten agents, each wired to its own chat."""
    with System(scale.place(name), environment) as system:
        wire(system.db, [(make(f"agent-{number}"), _FIRST_CHAT + number) for number in range(AGENTS)])
        await asyncio.to_thread(system.start, "ingest", "dispatch")
        answers = Answers(system)
        try:
            yield system, answers
        finally:
            answers.close()


async def one_after_the_other(system: System, answers: Answers, count: int) -> list[float]:
    """Milliseconds from the webhook to the row of the answer."""
    request = webhooks(_FIRST_CHAT, AGENTS)
    times = []
    async with connections(system.port("ingest"), 1) as (connection,):
        for _ in range(count):
            before = answers.count()
            start = time.perf_counter()
            await connection.send(request())
            times.append((await answers.reach(before + 1) - start) * 1000)
    return times


async def at_once(system: System, answers: Answers, count: int) -> float:
    """Messages a second, from the first of *count* webhooks, ten at a time, to the row of the last answer."""
    request = webhooks(_FIRST_CHAT, AGENTS)
    before = answers.count()
    left = itertools.count(1)
    start = time.perf_counter()
    async with connections(system.port("ingest"), AGENTS) as made:

        async def speak(connection: client.Connection) -> None:
            while next(left) <= count:
                status = await connection.send(request())
                if status != 200:
                    raise RuntimeError(f"ingest answered {status}")

        await asyncio.gather(*(speak(each) for each in made))
    return count / (await answers.reach(before + count) - start)


def echo(scale: Scale) -> Iterator[Line]:
    """The echo agent: the cost of everything but the agent."""

    async def measure() -> tuple[list[list[float]], list[float], list[float]]:
        async with agents_at_work(scale, "echo", echo_agent) as (system, answers):
            await one_after_the_other(system, answers, 20)
            times = [await one_after_the_other(system, answers, scale.few(150, 20)) for _ in range(scale.rounds)]
            rates = [await at_once(system, answers, scale.few(1500, 100)) for _ in range(scale.rounds)]
        async with agents_at_work(scale, "echo-1", echo_agent, _ONE_BY_ONE) as (system, answers):
            await one_after_the_other(system, answers, 20)
            return times, rates, [await at_once(system, answers, scale.few(1000, 100)) for _ in range(scale.rounds)]

    times, rates, single = uvloop.run(measure())
    yield at_most(
        f"echo agent, message in, response row, {AGENTS} agents, FULL, across processes: p50",
        Spread.of(percentile(each, 0.5) for each in times),
        2.5,
        "ms",
        beside=f"p99 {Spread.of(percentile(each, 0.99) for each in times).median:.1f} ms; {_TINYAGI_ECHO}",
        reason="three commits with FULL and two wake-ups of a process, on two cores with this client",
    )
    yield at_least(
        "the same, messages/s",
        Spread.of(rates),
        2000,
        beside=f"a turn for each message {Spread.of(single).median:,.0f}/s; TinyAGI 598/s",
        spec=",.0f",
        reason="the web server, dispatch and this client share two cores; see the CPU per message",
    )


def command(scale: Scale) -> Iterator[Line]:
    """One program for each message, without batches, as in TinyAGI."""

    def echo_program(name: str) -> Agent:
        return command_agent(name, "/bin/echo", "done")

    async def measure() -> tuple[list[list[float]], list[float], list[tuple[Load, Load]]]:
        async with agents_at_work(scale, "command", echo_program, _ONE_BY_ONE) as (system, answers):
            await one_after_the_other(system, answers, 10)
            times = [await one_after_the_other(system, answers, scale.few(60, 10)) for _ in range(scale.rounds)]
            rates = [await at_once(system, answers, scale.few(400, 40)) for _ in range(scale.rounds)]
        async with agents_at_work(scale, "command-load", echo_program) as (system, answers):
            await one_after_the_other(system, answers, 10)
            request = webhooks(_FIRST_CHAT, AGENTS)
            loads = []
            for _ in range(scale.rounds):
                await asyncio.to_thread(system.stop, "dispatch")
                idle = await load(system.port("ingest"), 32, scale.load_s, request)
                await asyncio.to_thread(system.start, "dispatch")
                loads.append((idle, await load(system.port("ingest"), 32, scale.load_s, request)))
            return times, rates, loads

    times, rates, loads = uvloop.run(measure())
    yield at_least(
        f"400 messages to {AGENTS} agents of provider command (/bin/echo), a run each / TinyAGI",
        Spread.of(each / _TINYAGI_COMMAND_PER_S for each in rates),
        11,
        beside=f"{Spread.of(rates).median:,.0f}/s; TinyAGI {_TINYAGI_COMMAND_PER_S}/s, measured on a like machine",
        spec=".1f",
        reason="the start of a program takes Python 2 to 3 ms of one core, and dispatch is one process",
    )
    yield at_most(
        "the same, p50 of one after the other",
        Spread.of(percentile(each, 0.5) for each in times),
        5,
        "ms",
        beside=f"TinyAGI {_TINYAGI_COMMAND_MS} ms",
        reason="ingest, dispatch and the program are three processes on two cores",
    )
    yield at_least(
        "ingest, 32 at a time, while they work / while they rest",
        ratios([busy.rate for _, busy in loads], [idle.rate for idle, _ in loads]),
        0.75,
        beside=f"{Spread.of(busy.rate for _, busy in loads).median:,.0f}/s against "
        f"{Spread.of(idle.rate for idle, _ in loads).median:,.0f}/s; TinyAGI 0.014",
        reason="ingest, dispatch, ten programs and this client share two cores",
    )


def cpu(scale: Scale) -> Iterator[Line]:
    """Processor time of all our processes and Litestream for each message, at 50 messages a second."""
    per_second = 50

    async def measure() -> list[float]:
        async with whole(scale, "cpu") as (system, there, ingest):
            system.start("api")
            system.litestream(f"file://{system.folder / 'replica'}")
            numbers = itertools.count(1)
            for _ in range(20):
                await answered_ms(there, ingest, next(numbers))
            shares = []
            for _ in range(scale.rounds):
                count = scale.few(200, 40)
                before = system.cpu_s()
                due = time.perf_counter()
                for _ in range(count):
                    due += 1 / per_second
                    await answered_ms(there, ingest, next(numbers))
                    await asyncio.sleep(max(0.0, due - time.perf_counter()))
                shares.append((system.cpu_s() - before) / count * 1000)
            return shares

    yield at_most(
        "CPU of the whole system per message, echo",
        Spread.of(uvloop.run(measure())),
        6,
        "ms",
        beside=f"ingest, dispatch, deliver, api and Litestream at {per_second} messages/s",
        reason="each of four processes wakes for a message, and wakes the next",
    )


LINES = (echo, command, cpu)
