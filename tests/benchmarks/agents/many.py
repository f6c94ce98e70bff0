"""Section 7, many programs: a hundred sessions at work at once, and what a thousand turns leave behind."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from shared.db.engine.connection import open_connection, scalar
from shared.db.roster.agents import Agent
from tests.benchmarks.agents.single import WITH_TOKEN, leash, send_mail
from tests.benchmarks.harness import client
from tests.benchmarks.harness.client import Connection, connections
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, family, must_be, percentile, shared_mb
from tests.benchmarks.harness.store import Store, command_agent, wire
from tests.benchmarks.harness.system import System, tick
from tests.liveness import processes_naming

_SESSIONS = 100
_FIRST_CHAT = 7000
_SLOW = ("/bin/sh", "-c", "sleep 5; echo done")
_PER_SECOND = 100
_SENDERS = 4
_LIMIT_S = 120.0
_ALL_RUN = f"SELECT count(DISTINCT session_id) = {_SESSIONS} FROM messages WHERE status = 'processing'"
_NO_LIMITS = {"POSTROOM_MAX_CONCURRENT_TURNS": str(_SESSIONS)}


def sessions(scale: Scale) -> Iterator[Line]:
    """Each session has a program that takes five seconds, and gets a message every second."""

    async def measure(system: System) -> tuple[list[list[float]], float, float]:
        async with connections(system.port("ingest"), _SENDERS) as made:
            await _send(made, range(_SENDERS))  # whatever is imported with the first turn
            await _until(system, "SELECT count(*) = 0 FROM messages WHERE status <> 'completed'")
            pid = system.pid("dispatch")
            idle = shared_mb(pid)
            await _send(made, range(_SESSIONS))
            await _until(system, _ALL_RUN)
            await asyncio.sleep(0.5)  # until the last programs run
            holders = [each for each in family(pid) if each != pid and not _is_program(each)]
            ours = shared_mb(pid) - idle + sum(map(_mb, holders))
            rounds = [await _send(made, range(scale.few(1000, 200))) for _ in range(scale.rounds)]
            return rounds, ours / _SESSIONS, shared_mb(pid)

    with System(scale.place("sessions"), _NO_LIMITS) as system:
        wire(system.db, [(command_agent(f"slow-{each}", *_SLOW), _FIRST_CHAT + each) for each in range(_SESSIONS)])
        system.start("ingest", "dispatch")
        times, ours, whole = uvloop.run(measure(system))
    yield at_most(
        f"{_SESSIONS} sessions run programs of 5 s, {os.cpu_count()} cores: ingest p99 at {_PER_SECOND} messages/s",
        Spread.of(percentile(each, 0.99) for each in times),
        20,
        "ms",
        beside=f"p50 {Spread.of(percentile(each, 0.5) for each in times).median:.1f} ms; held in by {leash()}",
        reason="programs that start take both cores for milliseconds",
    )
    yield at_most(
        "the same, our memory for each running turn, beside its program's own (PSS)",
        Spread.of([ours]),
        2,
        "MB",
        beside=f"what dispatch grew by, and what holds the programs in; dispatch {whole:.0f} MB",
    )


async def _send(made: list[Connection], numbers: range) -> list[float]:
    """Send a message to each chat in turn, at an even pace, over all connections; milliseconds of each."""
    begun, times = time.perf_counter(), []

    async def speak(connection: Connection, first: int) -> None:
        for number in numbers[first::_SENDERS]:
            await asyncio.sleep(begun + (number - numbers[0]) / _PER_SECOND - time.perf_counter())
            start = time.perf_counter()
            update = client.webhook(time.time_ns(), _FIRST_CHAT + number % _SESSIONS, f"message {number}")
            if await connection.send(update) != 200:
                raise RuntimeError(f"ingest answered {connection.body[:300]!r}")
            times.append((time.perf_counter() - start) * 1000)

    await asyncio.gather(*(speak(each, first) for first, each in enumerate(made)))
    return times


async def _until(system: System, sql: str) -> None:
    """Wait until *sql* says yes."""
    reader = open_connection(system.db, readonly=True)
    async with asyncio.timeout(_LIMIT_S):
        while not scalar(reader, sql):  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.05)
    reader.close()


def _is_program(pid: int) -> bool:
    """Whether it is the agent's own program, or what that started."""
    words = _words(pid)
    return (words[:2] == [b"/bin/sh", b"-c"] and words[2:3] == [_SLOW[2].encode()]) or words[:1] == [b"sleep"]


def _words(pid: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def _mb(pid: int) -> float:
    try:
        return shared_mb(pid)
    except (OSError, StopIteration):  # it has just ended
        return 0.0


_MARK = f"600.{os.getpid()}"  # seconds of a sleep, which name our processes
_STAYS = f"exec sleep {_MARK}"
_WAYS: Mapping[str, str] = {
    "an answer": "echo done",
    "an error": "exit 3",
    "a signal": "kill -9 $$",
    "an answer, and a daemon stays": f"(setsid sleep {_MARK} &); echo done",
    "a result, and it stays": """echo '{"type": "result", "text": "done"}'; """ + _STAYS,
    "the limit of the turn": _STAYS,
    "the limit of silence": f"echo begun; {_STAYS}",
    "the limit of output": "yes",
    "an interruption": _STAYS,
}
_LIMITS: Mapping[str, Any] = {
    "the limit of the turn": {"turn_timeout_ms": 200},
    "the limit of silence": {"idle_timeout_ms": 200},
    "the limit of output": {"output_limit_bytes": 1024},
}


def leftovers(scale: Scale) -> Iterator[Line]:
    """A thousand turns that end in every way; what is there a second later, beyond what was there before."""
    each = scale.few(112, 5)
    environment = {**_NO_LIMITS, **WITH_TOKEN, "POSTROOM_MAX_ATTEMPTS": "1", "POSTROOM_BATCH_SIZE": "1"}
    with System(scale.place("leftovers"), environment) as system:
        agents = [_agent(number, way) for number, way in enumerate(_WAYS)]
        places = wire(
            system.db, [(agents[number // _BESIDE], _FIRST_CHAT + number) for number in range(len(_WAYS) * _BESIDE)]
        )
        store = Store(system.db, "NORMAL", places=places)
        system.start("dispatch", "api")
        uvloop.run(
            _end_all(system, store, 2 * _BESIDE)
        )  # dispatch keeps some sandboxes of sessions for their next turn
        before = _state(system)
        begun = time.perf_counter()
        turns = uvloop.run(_end_all(system, store, each))
        took = time.perf_counter() - begun
        time.sleep(1)
        after = _state(system)
        killed = _left_after_a_kill(system, store)
        store.conn.close()
    more = {name: after[name] - before[name] for name in before}
    yield must_be(
        f"a second after {turns:,} turns that ended in {len(_WAYS)} ways: processes, zombies, open files more",
        ", ".join(str(found) for found in more.values()),
        is_met=all(found <= 0 for found in more.values()),
        bar="0, 0, 0",
        beside=f"{took:.0f} s; by {', '.join(_WAYS)}; held in by {leash()}",
    )
    yield must_be(
        "a second after kill -9 of dispatch with programs at work: processes of programs",
        str(killed),
        is_met=killed == 0,
        bar="0",
    )


def _agent(number: int, way: str) -> Agent:
    made = command_agent(f"way-{number}", "/bin/sh", "-c", _WAYS[way])
    beside = 1 if way == "an interruption" else _BESIDE  # one of its turns runs at the end, as at the beginning
    return replace(made, concurrency=beside, **_LIMITS.get(way, {}))


async def _end_all(system: System, store: Store, each: int) -> int:
    """Run *each* turns of every way, at most a hundred at once; how many turns."""
    interrupted = list(_WAYS).index("an interruption")
    for way in range(len(_WAYS)):
        numbers = range(1 if way == interrupted else each)
        store.put_many([(way * _BESIDE + number % _BESIDE, f"message {number}") for number in numbers])
    await asyncio.to_thread(tick, system, "dispatch")
    async with connections(system.port("api"), 1) as (api,):
        for _ in range(each):
            await _until(system, _RUNS.format(agent=f"way-{interrupted}"))
            await send_mail(api, f"way-{interrupted}", "urgent")
    await _until(system, _OTHERS_ENDED.format(agent=f"way-{interrupted}"))
    return each * len(_WAYS)


_BESIDE = 12  # chats of each way, whose turns run at once
_OTHERS_ENDED = (
    "SELECT count(*) = 0 FROM messages WHERE agent <> '{agent}' AND status <> 'completed' AND status <> 'dead'"
)
_RUNS = "SELECT count(*) > 0 FROM messages WHERE agent = '{agent}' AND status = 'processing'"


def _state(system: System) -> dict[str, int]:
    """The processes below dispatch that are no zombies, the zombies, and dispatch's open files."""
    pid = system.pid("dispatch")
    below = [each for each in family(pid) if each != pid]
    zombies = [each for each in below if not _words(each)[0:1] or _words(each) == [b""]]
    return {
        "processes": len(below) - len(zombies),
        "zombies": len(zombies),
        "open files": len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208
    }


def _left_after_a_kill(system: System, store: Store) -> int:
    """Kill dispatch while a program runs for every way that stays; how many processes of programs there are then."""
    os.kill(system.pid("dispatch"), signal.SIGKILL)
    time.sleep(1)
    return len(processes_naming(_MARK))


LINES = (sessions, leftovers)
