"""The one clock: the machine's, and in an emulator another one."""

from pathlib import Path

import pytest

from shared.core.time import clock

ROOT = Path(__file__).parents[4]
HOUR = 3_600_000


@pytest.fixture(autouse=True)
def real_clock_afterwards():
    yield
    clock.move(None)
    clock.run_on(clock.MachineClocks())


def test_a_moved_clock_tells_the_time_of_rows_and_leaves_the_machine_s_alone():
    before = clock.machine_ms()
    assert clock.now_ms() - before < HOUR
    clock.move(lambda machine_ms: machine_ms + 24 * HOUR)
    assert 24 * HOUR <= clock.now_ms() - before < 25 * HOUR
    assert clock.machine_ms() - before < HOUR


def test_what_a_file_says_is_as_long_ago_on_the_clock_of_the_rows():
    written = clock.machine_ms() - HOUR
    assert clock.of_machine(written) == written
    clock.move(lambda machine_ms: machine_ms + 24 * HOUR)
    assert abs(clock.now_ms() - clock.of_machine(written) - HOUR) < 1000
    clock.move(lambda machine_ms: 7 * HOUR)
    assert abs(clock.of_machine(written) - 6 * HOUR) < 1000


class Stopped:
    """A clock that moves by the waits alone."""

    def __init__(self):
        self.waited_s = 0.0

    def wall_ms(self):
        return 1_800_000_000_000 + int(self.waited_s * 1000)

    def monotonic_s(self):
        return self.waited_s

    def pause(self, seconds):
        self.waited_s += seconds


def test_every_instant_and_every_wait_is_of_the_clock_that_runs():
    clock.run_on(Stopped())
    clock.pause(90)
    assert (clock.now_ms(), clock.machine_ms(), clock.monotonic_s()) == (1_800_000_090_000, 1_800_000_090_000, 90.0)
    clock.move(lambda machine_ms: machine_ms + HOUR)
    assert clock.of_machine(clock.machine_ms()) == clock.now_ms() == 1_800_000_090_000 + HOUR


def test_the_machine_s_clock_waits_and_tells():
    before = clock.monotonic_s()
    clock.pause(0.01)
    assert clock.monotonic_s() - before >= 0.01


def test_nothing_but_the_emulator_moves_the_clock():
    """A deployment runs functions, infra and shared: none of them can, whatever its environment says."""
    folders = ("shared", "functions", "infra", "spark_jobs", "emulator")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    moving = {str(path.relative_to(ROOT)) for path in files if "clock.move(" in path.read_text()}
    assert moving == {"emulator/base/clock_page.py", "emulator/cli/client.py", "emulator/system/supervisor.py"}
    naming = {path.relative_to(ROOT).parts[0] for path in files if "import ClockPage" in path.read_text()}
    assert naming == {"emulator"}
