"""Section 7, one program at a time: what a turn adds to it, and how soon an urgent message ends it and its children."""

import asyncio
import os
import select
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop

from shared.agents.programs import containment
from shared.db.engine.connection import open_connection, rows
from shared.db.roster.agents import Agent
from tests.benchmarks.harness.client import Connection, connections, post
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, family, percentile
from tests.benchmarks.harness.store import command_agent, wire
from tests.benchmarks.harness.system import System
from tests.benchmarks.turns import Answers
from tests.benchmarks.webhook import webhooks

_CHAT = 6000
_SMALL = ("/bin/echo", "done")
# A program with children: one in the foreground, one beside it, and one that left its session and its parent.
_FAMILY = ("/bin/sh", "-c", "(setsid sleep 600 &); sleep 600 & sleep 600")
_SLEEPERS = 3
_LIMIT_S = 30.0
TOKEN = "benchmark-api-token"
WITH_TOKEN = {"POSTROOM_API_TOKEN": TOKEN}  # where no leash is, the API wants it from everybody


def added(scale: Scale) -> Iterator[Line]:
    """A turn of the provider ``command`` against its program alone: from the claim to the row of the answer."""

    async def measure() -> tuple[list[list[float]], list[list[float]]]:
        with System(scale.place("added")) as system:
            wire(system.db, [(command_agent("small", *_SMALL), _CHAT)])
            await asyncio.to_thread(system.start, "ingest", "dispatch")
            answers = Answers(system)
            await turns_ms(system, answers, 10)
            turns, bare = [], []
            for _ in range(scale.rounds):
                bare.append([_bare_ms(_SMALL) for _ in range(scale.few(100, 10))])
                turns.append(await turns_ms(system, answers, scale.few(200, 20)))
            answers.close()
            return turns, bare

    turns, bare = uvloop.run(measure())
    program = [percentile(each, 0.5) for each in bare]
    for share, bar in ((0.5, 5), (0.99, 10)):
        yield at_most(
            f"what a turn adds to its program (command, {_SMALL[0]}), claim to answer's row: p{share * 100:.0f}",
            Spread.of(percentile(each, share) - alone for each, alone in zip(turns, program, strict=True)),
            bar,
            "ms",
            beside=f"the program alone {Spread.of(program):.2f} ms; held in by {leash()}",
            reason="dispatch, ingest, this client and the program share two cores",
        )


def leash() -> str:
    """How programs are held in on this machine."""
    return containment.available("auto").kind


def _bare_ms(words: tuple[str, ...]) -> float:
    """From the start of the program to its end, as a shell would start it."""
    nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    start = time.perf_counter()
    os.waitpid(os.posix_spawn(words[0], words, {}, file_actions=nowhere), 0)
    return (time.perf_counter() - start) * 1000


async def turns_ms(
    system: System, answers: Answers, count: int, *, first_chat: int = _CHAT, chats: int = 1
) -> list[float]:
    """Milliseconds of *count* turns, one after the other.

    The claim's row has its instant in whole milliseconds. So half of one, the mean of what it cuts off, is taken away.
    """
    request = webhooks(first_chat, chats)
    reader = open_connection(system.db, readonly=True)
    found = []
    async with connections(system.port("ingest"), 1) as (connection,):
        for _ in range(count):
            before = answers.count()
            await connection.send(request())
            answered_s = await answers.reach(before + 1)
            answered_ms = (time.time() - time.perf_counter() + answered_s) * 1000
            claimed = "SELECT max(created_at) FROM events WHERE type = 'chain_step_start'"
            found.append(answered_ms - rows(reader, claimed)[0][0] - 0.5)
    reader.close()
    return found


def urgent(scale: Scale) -> Iterator[Line]:
    """An urgent message to an agent whose program runs: from the answer 200 to the end of its last process."""

    async def measure() -> list[float]:
        with System(scale.place("urgent"), {**WITH_TOKEN, "POSTROOM_BATCH_SIZE": "1000"}) as system:
            wire(system.db, [(busy_agent("busy"), _CHAT)])
            await asyncio.to_thread(system.start, "dispatch", "api")
            async with connections(system.port("api"), 1) as (api,):
                await send_mail(api, "busy", "message")
                return [await _gone_ms(system, api) for _ in range(scale.few(100, 10))]

    times = uvloop.run(measure())
    yield at_most(
        "urgent message, accepted, until the old program and all its children are gone: p95",
        Spread.of([percentile(times, 0.95)]),
        10,
        "ms",
        beside=f"p50 {percentile(times, 0.5):.1f} ms, longest {max(times):.1f} ms, of {len(times)}; "
        f"{_SLEEPERS} children each, one in a session of its own; held in by {leash()}",
        reason="dispatch, api, this client and the next program share two cores",
    )


def busy_agent(name: str) -> Agent:
    """An agent whose program starts others and never answers."""
    return command_agent(name, *_FAMILY)


async def send_mail(api: Connection, agent: str, urgency: str) -> None:
    """The operator writes to *agent*."""
    fields = {"recipient": agent, "body": "look here", "urgency": "urgent" if urgency == "urgent" else "normal"}
    status = await api.send(post("/api/mail", fields, TOKEN))
    if status not in (200, 201):
        raise RuntimeError(f"/api/mail answered {status}: {api.body[:300]!r}")


async def _gone_ms(system: System, api: Connection) -> float:
    """Wait until the program and its children run, write an urgent message, and wait for the end of all of them."""
    async with asyncio.timeout(_LIMIT_S):
        while not (sleepers := _sleepers(system)):  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.005)
    ends = [os.pidfd_open(pid) for pid in sleepers]
    await send_mail(api, "busy", "urgent")
    accepted = time.perf_counter()
    try:
        return max(0.0, await asyncio.to_thread(_last_end, ends) - accepted) * 1000
    finally:
        for each in ends:
            os.close(each)


def _sleepers(system: System) -> list[int]:
    """The processes of the program that runs."""
    pid = system.pid("dispatch")
    found = [each for each in family(pid) if each != pid]
    return found if sum(_name(each) == "sleep" for each in found) >= _SLEEPERS else []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # it has just ended
        return ""


def _last_end(pidfds: list[int]) -> float:
    """The instant at which the last of these processes has ended; a zombie has ended."""
    for each in pidfds:
        waiting = select.poll()
        waiting.register(each, select.POLLIN)
        if not waiting.poll(_LIMIT_S * 1000):
            raise RuntimeError(f"a process of the old program still ran {_LIMIT_S:.0f} s after the urgent message")
    return time.perf_counter()


LINES = (added, urgent)
