import os
import subprocess
import sys
import uuid

import pytest

from shared.agents import leftover_processes

SLEEPER = "import time; print('up', flush=True); time.sleep(60)"


@pytest.fixture
def start():
    started = []

    def start(turn, **options):
        process = subprocess.Popen(
            [sys.executable, "-c", SLEEPER],
            env={"PATH": os.environ["PATH"], **({leftover_processes.MARK: turn} if turn else {})},
            stdout=subprocess.PIPE,
            **options,
        )
        started.append(process)
        assert process.stdout.readline() == b"up\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_only_processes_with_the_turns_token_are_killed_in_any_session(start):
    ours, another = f"turn_{uuid.uuid4().hex}", f"turn_{uuid.uuid4().hex}"  # no other test's dispatch kills them
    mine, apart = start(ours), start(ours, start_new_session=True)
    others = [start(another), start(f"{ours}a"), start(None)]
    assert leftover_processes.kill([ours, f"{another}c"]) >= 2
    assert [process.wait(60) for process in (mine, apart)] == [-9, -9]
    assert [process.poll() for process in others] == [None, None, None]


def test_without_a_token_nothing_is_killed(start):
    process = start("")
    assert leftover_processes.kill([]) == 0
    assert process.poll() is None
