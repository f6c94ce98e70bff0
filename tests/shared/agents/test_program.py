"""A program of a provider: how it starts, and that it dies with us."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import uvloop

from shared.agents import program
from shared.agents.program import Program
from tests.liveness import is_alive

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from shared.agents import program
if {without_setpriv}:
    program._death_signal_prefix = lambda: ()

async def go():
    started = await program.Program.start(
        [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(300)"],
        folder=Path("/"), environment={{}}, line_limit=1000,
    )
    print((await started.stdout.readline()).decode(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(go())
"""


@pytest.mark.parametrize("without_setpriv", [False, True])
def test_a_program_dies_when_we_are_killed(without_setpriv):
    code = KILLED.format(without_setpriv=without_setpriv)
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    pid, deadline = int(killed.stdout), time.monotonic() + 60
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(pid)


def start(*command, folder=Path("/"), **environment):
    return Program.start(command, folder=folder, environment=environment, line_limit=1000)


async def heard(*command, **fields):
    """The output and the exit code."""
    begun = await start(*command, **fields)
    text = await begun.stdout.read()
    code = await begun.wait()
    begun.close()
    return text.decode(), code


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_program_gets_its_input_and_environment_and_returns_its_output(runner, tmp_path):
    script = 'pwd; echo "$OWN"; exit 3'
    assert runner(heard("sh", "-c", script, folder=tmp_path, OWN="own", PATH=os.environ["PATH"])) == (
        f"{tmp_path}\nown\n",
        3,
    )


def test_a_signal_is_a_negative_exit_code():
    assert asyncio.run(heard("/bin/sh", "-c", "kill -9 $$")) == ("", -9)


def held():
    """The open pipes and the children of this process."""
    found = {str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()}
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {name for name in found if name.startswith("pipe:")} | {*children}


@pytest.mark.parametrize("steps", range(1, 9))
@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_start_that_is_cancelled_at_any_moment_leaves_neither_pipe_nor_process(runner, steps):
    async def go():
        before = held()
        starting = asyncio.create_task(start("/bin/sleep", "300"))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            begun = await starting
            begun.kill()
            begun.close()
        deadline = time.monotonic() + 60
        while held() - before and time.monotonic() < deadline:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        return held() - before

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
        asyncio.run(start(name, folder=tmp_path))
    assert refused.value.strerror


def test_a_relative_program_path_is_resolved_in_the_folder(tmp_path):
    (tmp_path / "agent").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "agent").chmod(0o700)
    assert asyncio.run(heard("./agent", folder=tmp_path)) == ("found\n", 0)


def test_an_old_setpriv_is_not_used(tmp_path, monkeypatch):
    (tmp_path / "setpriv").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "setpriv").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    program._death_signal_prefix.cache_clear()
    try:
        assert program._death_signal_prefix() == ()
        assert asyncio.run(heard("/bin/echo", "x")) == ("x\n", 0)
    finally:
        program._death_signal_prefix.cache_clear()
