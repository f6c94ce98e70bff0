"""A program of a provider: how it starts, in each containment that this machine has."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest
import uvloop

from shared.agents.programs.containment import Containment, ProgramCommand
from shared.agents.programs.process import Program
from tests.containments import CONTAINMENTS, SUPERVISOR
from tests.liveness import opened


@pytest.fixture(params=CONTAINMENTS.values(), ids=CONTAINMENTS)
def held(request):
    return request.param


def start(held, *words, folder, **environment):
    return Program.start(ProgramCommand(words, folder, environment), held, line_limit=1000)


async def heard(held, *words, **fields):
    """The output and the exit code."""
    begun = await start(held, *words, **fields)
    code = await begun.wait()
    text = await begun.stdout.read()
    await begun.end()
    return text.decode(), code


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_program_gets_its_input_and_environment_and_returns_its_output(held, runner, tmp_path):
    script = 'pwd; echo "$OWN"; exit 3'
    words = ("sh", "-c", script)
    assert runner(heard(held, *words, folder=tmp_path, OWN="own", PATH=os.environ["PATH"])) == (f"{tmp_path}\nown\n", 3)


def test_a_signal_is_a_negative_exit_code(held, tmp_path):
    assert asyncio.run(heard(held, "/bin/sh", "-c", "kill -9 $$", folder=tmp_path)) == ("", -9)


def held_by_us():
    """The open pipes and sockets and the children of this process."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {name for name in opened(os.getpid()).values() if name.startswith(("pipe:", "socket:"))} | {*children}


@pytest.mark.parametrize("steps", range(1, 9))
@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_start_that_is_cancelled_at_any_moment_leaves_neither_pipe_nor_process(held, runner, steps, tmp_path):
    async def go():
        before = held_by_us()
        starting = asyncio.create_task(start(held, "/bin/sleep", "300", folder=tmp_path))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await starting).end()
        async with asyncio.timeout(60):
            while held_by_us() - before:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
        return held_by_us() - before

    assert runner(go()) == set()


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("/no/such/program", FileNotFoundError),
        ("no-such-program", FileNotFoundError),
        ("./agent", PermissionError),
        ("/", PermissionError),
    ],
)
def test_a_program_that_cannot_start_is_an_error_before_anything_runs(name, error, tmp_path):
    (tmp_path / "agent").write_text("no program")
    with pytest.raises(error) as refused:
        asyncio.run(start(SUPERVISOR, name, folder=tmp_path))
    assert refused.value.strerror


def test_a_relative_program_path_is_resolved_in_the_folder(held, tmp_path):
    (tmp_path / "agent").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "agent").chmod(0o700)
    assert asyncio.run(heard(held, "./agent", folder=tmp_path)) == ("found\n", 0)


def test_a_containment_that_fails_is_neither_a_code_nor_a_hang(tmp_path):
    broken = Containment("namespace", "no such option", ("/usr/bin/env", "--no-such-option"))
    assert asyncio.run(heard(broken, "/bin/echo", "x", folder=tmp_path)) == ("", None)
