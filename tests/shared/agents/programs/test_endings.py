"""Nothing that a program started is alive a second after its turn, whatever it did and whatever ended it."""

import asyncio
import contextlib
import dataclasses
import os
import random
import signal
import subprocess
import sys
import time
import uuid

import pytest

from shared.agents.base import Failed, Result, Turn
from shared.agents.programs.limits import Limits
from shared.agents.programs.sandboxes import Sandboxes
from shared.agents.providers.command import Command
from tests.containments import CONTAINMENTS
from tests.liveness import processes_naming

# It leaves a daemon: forked twice, in a session of its own, without environment and descriptors, deaf to signals.
ESCAPE = """
import os, signal, sys, time
def escape(mark):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            os.closerange(0, 64)
            os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", mark], {})
        os._exit(0)
    os.wait()
escape(sys.argv[1])
escape(sys.argv[1])
what = sys.argv[2]
print('{"type": "init", "continuation": "c"}', flush=True)
if what == "answer":
    print("done")
elif what == "result":
    print('{"type": "result", "text": "done"}', flush=True)
elif what == "result, and it stays":
    print('{"type": "result", "text": "done"}', flush=True)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)
elif what == "error":
    print('{"type": "error", "message": "no"}', flush=True)
    time.sleep(600)
elif what == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
else:
    time.sleep(600)
"""

GONE_WITHIN_S = 1.0


def left(mark, within_s=GONE_WITHIN_S):
    """What is still alive after *within_s* seconds."""
    deadline = time.monotonic() + within_s
    while (found := processes_naming(mark)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


@pytest.fixture
def mark():
    """Names the processes of a test; none outlives it."""
    name = f"postroom-test-{uuid.uuid4().hex}"
    yield name
    for pid in processes_naming(name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def turn(mark, what, folder, leash="auto", **limits):
    (folder / "agent.py").write_text(ESCAPE)
    config = {"command": [sys.executable, "-I", str(folder / "agent.py"), mark, what]}
    return Turn("a", None, "", config, folder, "s", None, "p", (), 1, limits=Limits(**limits), leash=leash)


async def events_of(what):
    """The events of a turn; its sandbox, if it has one, is left waiting for the next turn."""
    async with contextlib.aclosing(Command().run(what)) as events:
        return [event async for event in events]


async def events_and_remains(what, mark):
    """The events, and what is alive of the turn while its sandbox waits."""
    sandboxes = Sandboxes(what.folder / "sandboxes")
    try:
        events = await events_of(dataclasses.replace(what, sandboxes=sandboxes))
        return events, left(mark)
    finally:
        await sandboxes.close()


ENDINGS = {
    "answer": ({}, Result("done")),
    "result": ({}, Result("done")),
    "result, and it stays": ({}, Result("done")),
    "error": ({}, Failed("no")),
    "crash": ({}, Failed("the program was ended by signal 11: nothing on standard error", code="crashed")),
    "silence": (
        {"idle_ms": 1500},
        Failed(Limits().ended("the program wrote nothing for 1.5 s", "idle_timeout_ms"), code="idle_timeout"),
    ),
}


@pytest.fixture(params=["auto", "off"])
def leash(request):
    return request.param


@pytest.mark.parametrize("what", ENDINGS)
def test_nothing_is_left_when_a_turn_ends_by(what, mark, tmp_path, leash):
    limits, expected = ENDINGS[what]
    events, remains = asyncio.run(events_and_remains(turn(mark, what, tmp_path, leash, **limits), mark))
    assert remains == []
    assert events[-1] == expected


def test_nothing_is_left_when_a_turn_is_stopped(mark, tmp_path, leash):
    async def go():
        running = asyncio.create_task(events_of(turn(mark, "wait", tmp_path, leash)))
        async with asyncio.timeout(60):
            while len(processes_naming(mark)) < 3:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(go())
    assert left(mark) == []


# -- kill -9 of dispatch

DISPATCH = """
import asyncio, dataclasses, os, sys
sys.stdout = sys.stderr  # for the log; what this says to the test goes to descriptor 1
from pathlib import Path
from shared.agents.programs import containment
from shared.agents.programs.containment import ProgramCommand
from shared.agents.programs.process import Program
from shared.agents.programs.sandboxes import Sandboxes
from tests.containments import CONTAINMENTS
kind, folder, mark = sys.argv[1:]
held = CONTAINMENTS.get(kind) or next(iter(CONTAINMENTS.values()))
words = [sys.executable, "-I", "-S", folder + "/agent.py", mark, "wait"]
shown = containment.readable_paths(words, [], {}, [])

async def go():
    command = ProgramCommand(words, Path(folder), {"PATH": os.environ["PATH"]}, shown, session="s")
    sandboxes = None
    if kind == "sandbox":  # which has served a turn before
        sandboxes = Sandboxes(Path(folder) / "sandboxes")
        short = dataclasses.replace(command, words=["true"])
        first = await Program.start(short, held, line_limit=1000, sandboxes=sandboxes)
        await first.wait()
        await first.end()
    starting = asyncio.create_task(Program.start(command, held, line_limit=1000, sandboxes=sandboxes))
    await asyncio.sleep(0)
    os.write(1, b"up\\n")
    program = await starting
    while line := await program.stdout.readline():
        os.write(1, line)

asyncio.run(go())
"""


@contextlib.contextmanager
def dispatch(kind, folder, mark):
    """A process like dispatch that starts the program; the block begins with the start."""
    (folder / "agent.py").write_text(ESCAPE)
    words = [sys.executable, "-c", DISPATCH, kind, str(folder), mark]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"up\n"
        yield process
        process.kill()


@pytest.fixture(params=[*CONTAINMENTS, "sandbox"])
def kind(request):
    return request.param


def test_nothing_is_left_when_dispatch_is_killed_in_the_middle_of_a_turn(kind, mark, tmp_path):
    with dispatch(kind, tmp_path, mark) as process:
        assert b"init" in process.stdout.readline()
        assert len(processes_naming(mark)) >= 3
        process.kill()
    assert left(mark) == []


@pytest.mark.parametrize("after_ms", [0, 1, 3, 6, 10, 20, 30])
def test_nothing_is_left_when_dispatch_is_killed_while_the_program_starts(kind, after_ms, mark, tmp_path):
    assert_nothing_left_after(kind, after_ms, mark, tmp_path)


@pytest.mark.long
def test_nothing_is_left_after_many_kills_at_random_instants(kind, mark, tmp_path):
    seed = random.randrange(10**6)
    instants = random.Random(seed)
    for number in range(60):
        assert_nothing_left_after(kind, instants.uniform(0, 120), f"{mark}-{seed}-{number}", tmp_path)


def assert_nothing_left_after(kind, after_ms, mark, folder):
    with dispatch(kind, folder, mark) as process:
        time.sleep(after_ms / 1000)
        process.kill()
    assert left(mark) == []
