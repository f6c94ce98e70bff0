import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.processes import is_alive
from tests.emulator.harness import Emulator


@pytest.mark.e2e
def test_without_its_fork_server_the_emulator_ends_and_says_why(emulator: Callable[..., Emulator]) -> None:
    """It can't start any function again: to stay up would be to answer 502 for ever."""
    running = emulator()
    pids = running.pids()
    named = {Path(f"/proc/{pid}/comm").read_text().strip(): pid for pid in pids}
    os.kill(named["zygote"], signal.SIGKILL)
    assert running.process.wait(15) == 69
    assert "the fork server ended with code -9" in running.output.read_text()
    assert not [pid for pid in pids if is_alive(pid)]
