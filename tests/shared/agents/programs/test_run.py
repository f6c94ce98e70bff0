"""A run of a program: its limits, and the word for each end."""

import asyncio
import os
import shutil
import sys

import pytest

from shared.agents.programs import containment
from shared.agents.programs.containment import ProgramCommand
from shared.agents.programs.limits import Ending, Limits
from shared.agents.programs.run import ProgramRun
from tests.containments import CONTAINMENTS, SUPERVISOR
from tests.serving import leap

HOLDS = "import subprocess, sys; subprocess.run([sys.executable, '-I', '-S', '-c', {!r}])"
GREEDY = "x = bytearray(200_000_000); import time; time.sleep(600)"

TOO_LARGE = (
    "the program's folders used more than 20 MB, so Postroom ended it (disk_limit_mb of the agent is the limit; to "
    "change it: `emulator agents set AGENT --disk-limit MB`); what this turn wrote was deleted, the largest files "
    "first, until they used less"
)
LIMITS = Limits()

ENDINGS = {
    "a program that ends": ("print('x')", {}, Ending("ended", "the program ended"), "agent"),
    "an exit code": (
        "import sys; sys.exit('why')",
        {},
        Ending("crashed", "the program ended with code 1: why"),
        "agent",
    ),
    "a fault of its own": (
        "import os; os.kill(os.getpid(), 11)",
        {},
        Ending("crashed", "the program was ended by signal 11: nothing on standard error"),
        "agent",
    ),
    "a signal from elsewhere": (
        "import os; os.kill(os.getpid(), 9)",
        {},
        Ending("killed", "the program was ended by signal 9: nothing on standard error"),
        "system",
    ),
    "silence": (
        "import time; print('x', flush=True); time.sleep(600)",
        {"idle_ms": 200},
        Ending("idle_timeout", LIMITS.ended("the program wrote nothing for 0.2 s", "idle_timeout_ms")),
        "postroom",
    ),
    "a tool that never answers": (
        "import time; print('tool', flush=True); time.sleep(600)",
        {"tool_ms": 300},
        Ending("tool_timeout", LIMITS.ended("a tool call of the program took more than 0.3 s", "tool_timeout_ms")),
        "postroom",
    ),
    "too much output": (
        "print('x' * 5000)",
        {"output_bytes": 4096},
        Ending("output_limit", LIMITS.ended("the program wrote more than 4096 bytes", "output_limit_bytes")),
        "postroom",
    ),
    "an endless line": (
        "print('x' * 20_000)",
        {},
        Ending("output_limit", "the program wrote a line of more than 10000 bytes"),
        "postroom",
    ),
    "too much memory": (
        GREEDY,
        {"memory_bytes": 100 * 1024**2},
        Ending(
            "memory_limit", LIMITS.ended("the program and what it started used more than 100 MB", "memory_limit_mb")
        ),
        "postroom",
    ),
    "too many bytes on disk": (
        "open('kept', 'w').write('x'); open('large', 'wb').write(bytes(30_000_000)); import time; time.sleep(600)",
        {"disk_bytes": 20 * 1024**2},
        Ending("disk_limit", TOO_LARGE),
        "postroom",
    ),
    "too many files on disk": (
        "[open(f'{n}', 'w').close() for n in range(3000)]; import time; time.sleep(600)",
        {"disk_bytes": 10 * 1024**2},
        Ending("disk_limit", TOO_LARGE.replace("20 MB", "10 MB")),
        "postroom",
    ),
    "a file on disk that has no name any more": (
        "import os; f = open('f', 'wb'); os.unlink('f'); f.write(bytes(30_000_000)); f.flush(); os.read(0, 1)\n"
        "import time; time.sleep(600)",
        {"disk_bytes": 20 * 1024**2},
        Ending("disk_limit", TOO_LARGE),
        "postroom",
    ),
    "too much memory of a child": (
        HOLDS.format(GREEDY),
        {"memory_bytes": 100 * 1024**2},
        Ending(
            "memory_limit", LIMITS.ended("the program and what it started used more than 100 MB", "memory_limit_mb")
        ),
        "postroom",
    ),
}


def run(held, source, folder, act=None, **limits):
    """The run, and what it said."""
    words = [sys.executable, "-I", "-S", "-c", source]
    shown = containment.readable_paths(words, [], {}, [])
    command = ProgramCommand(words, folder, {"PATH": os.environ["PATH"]}, shown)

    async def go():
        said = []
        async with ProgramRun(command, Limits(**limits), held, line_limit=10_000) as running:
            async for line in running.lines():
                said.append(line)
                if line == b"tool\n":
                    running.tool_began()
                if act is not None:
                    await act(running)
                    break
        return running.ending, said

    return asyncio.run(asyncio.wait_for(go(), 60))


@pytest.mark.parametrize(("source", "limits", "expected", "by"), ENDINGS.values(), ids=ENDINGS)
def test_each_end_has_a_word_and_says_who(source, limits, expected, by, tmp_path):
    for held in CONTAINMENTS.values():
        ending, _ = run(held, source, tmp_path, **limits)
        assert ending == expected
        assert ending.by == by


def test_what_a_turn_wrote_beyond_the_limit_is_deleted_and_all_else_stays(tmp_path):
    """So that the next turn can work, and many turns fill no disk. The large old file is no work of this turn."""
    (tmp_path / "old").write_bytes(bytes(8_000_000))
    source = (
        "import os, time; os.makedirs('below'); open('small', 'w').write('x'); os.symlink('/etc', 'link')\n"
        "open('below/large', 'wb').write(bytes(30_000_000)); os.chmod('below', 0); time.sleep(600)"
    )
    for held in CONTAINMENTS.values():
        shutil.rmtree(tmp_path / "below", ignore_errors=True)
        (tmp_path / "link").unlink(missing_ok=True)
        ending, _ = run(held, source, tmp_path, disk_bytes=20 * 1024**2)
        assert ending.word == "disk_limit"
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["below", "link", "old", "small"]


@pytest.mark.skipif(not containment.available().is_leash, reason="there is no leash on this host")
@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])  # noqa: S108 - the sandbox's own
def test_files_in_memory_count_as_memory(tmp_path, folder):
    source = f"open('{folder}/large', 'wb').write(bytes(200_000_000)); import time; time.sleep(600)"
    ending, _ = run(containment.available(), source, tmp_path, memory_bytes=100 * 1024**2)
    assert ending.word == "memory_limit"


def test_a_line_of_output_keeps_an_idle_program_alive_and_a_tool_has_a_limit_of_its_own(tmp_path):
    """Forty seconds before each line, of a minute's limit; the tool is silent for five minutes."""
    words = [sys.executable, "-I", "-S", "-c", "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"]
    command = ProgramCommand(words, tmp_path, {"PATH": os.environ["PATH"]}, ())

    async def go():
        limits = Limits(idle_ms=60_000, tool_ms=600_000)
        async with ProgramRun(command, limits, SUPERVISOR, line_limit=10_000) as running:
            said = running.lines()
            for word, seconds in ((b"x\n", 40), (b"x\n", 40), (b"tool\n", 40), (b"over\n", 300)):
                leap(seconds)
                await running.write(word, close=word == b"over\n")
                assert await anext(said) == word
                if word == b"tool\n":
                    running.tool_began()
            assert [line async for line in said] == []
        return running.ending.word

    assert asyncio.run(asyncio.wait_for(go(), 600)) == "ended"


def test_other_turns_go_on_between_the_lines_of_a_flood(tmp_path):
    """What the pipe holds is thousands of lines, and none of them waits."""
    words = [sys.executable, "-I", "-S", "-c", "print('x\\n' * 100_000)"]
    command = ProgramCommand(words, tmp_path, {"PATH": os.environ["PATH"]}, ())

    async def go():
        lines = most = 0

        async def go_on():
            nonlocal lines, most
            while True:
                most, lines = max(most, lines), 0
                await asyncio.sleep(0)

        others = asyncio.create_task(go_on())
        async with ProgramRun(command, Limits(), SUPERVISOR, line_limit=10_000) as running:
            async for _ in running.lines():
                lines += 1
        others.cancel()
        return most

    assert asyncio.run(asyncio.wait_for(go(), 60)) < 2000


def test_after_a_result_a_program_may_end_by_itself(tmp_path):
    source = "print('result', flush=True); import sys; sys.stdin.read(); open('saved', 'w').close()"
    ending, _ = run(SUPERVISOR, source, tmp_path, act=lambda running: running.finish())
    assert ending.word == "ended"
    assert (tmp_path / "saved").exists()


def test_a_result_counts_when_the_program_is_stopped_before_it_has_ended(tmp_path):
    """The program says with a file that it knows of the end of its input, and stays."""
    source = (
        "import sys, time; print('result', flush=True); sys.stdin.read()\nopen('known', 'w').close(); time.sleep(600)"
    )

    async def stop(running):
        finishing = asyncio.create_task(running.finish())
        while not (tmp_path / "known").exists():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        finishing.cancel()
        await finishing

    ending, said = run(SUPERVISOR, source, tmp_path, act=stop)
    assert (ending.word, said) == ("ended", [b"result\n"])


def test_a_run_that_is_left_early_was_stopped(tmp_path):
    async def leave(_):
        pass

    ending, _ = run(SUPERVISOR, "import time; print('x', flush=True); time.sleep(600)", tmp_path, act=leave)
    assert ending == Ending("stopped", "the program was stopped")
    assert ending.by == "postroom"


def test_a_program_that_the_leash_hides_is_explained(tmp_path):
    held = next(iter(CONTAINMENTS.values()))
    (tmp_path / "there").mkdir()
    hidden = tmp_path / "hidden"
    hidden.write_text("#!/bin/sh\necho shown\n")
    hidden.chmod(0o700)
    command = ProgramCommand([str(hidden)], tmp_path / "there", {"PATH": os.environ["PATH"]})

    async def go():
        async with ProgramRun(command, Limits(), held) as running:
            said = [line async for line in running.lines()]
        return running.ending, said

    ending, said = asyncio.run(go())
    if held.is_leash:
        assert "what 'readable' in its config names" in ending.reason
    else:
        assert (ending.word, said) == ("ended", [b"shown\n"])
