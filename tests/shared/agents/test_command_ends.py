"""A program that ends while another process holds its pipes open."""

import asyncio
import contextlib
import sys
from pathlib import Path

import pytest
import uvloop

from shared.agents.base import Failed, Result, Turn
from shared.agents.providers.command import Command

LEAVES = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(45)"], start_new_session={apart})
print(child.pid)
sys.exit("oops" if {fails} else 0)
"""


def run(source, runner, folder, times=1):
    """The events of a turn, and the number of file descriptors that it leaves open."""
    config = {"command": [sys.executable, "-I", "-c", source]}
    turn = Turn("a", None, "", config, folder, "s", None, "the prompt", (), 1)

    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    async def go():
        before = descriptors()
        for _ in range(times):
            async with asyncio.timeout(30), contextlib.aclosing(Command().run(turn)) as events:
                found = [event async for event in events]
        over = asyncio.get_running_loop().time() + 30
        while descriptors() - before > 1 and asyncio.get_running_loop().time() < over:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return found, descriptors() - before

    return runner(go())


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def runner(request):
    return request.param


@pytest.mark.parametrize("apart", [False, True])
def test_the_answer_counts_when_the_program_ends(runner, apart, tmp_path):
    (result,), _ = run(LEAVES.format(apart=apart, fails=False), runner, tmp_path)
    assert isinstance(result, Result)
    assert result.text


def test_the_failure_counts_when_the_program_ends(runner, tmp_path):
    (failed,), _ = run(LEAVES.format(apart=True, fails=True), runner, tmp_path)
    assert isinstance(failed, Failed)
    assert failed.reason == "the program ended with code 1: oops"


def test_no_descriptor_stays_open(runner, tmp_path):
    _, more = run(LEAVES.format(apart=True, fails=False), runner, tmp_path, times=2)
    assert more <= 1  # uvloop and asyncio keep one for child processes


def test_all_of_a_long_last_output_is_read(runner, tmp_path):
    (result,), _ = run("print('x' * 900_000)\n" * 3, runner, tmp_path)
    assert len(result.text) == 2_700_002
