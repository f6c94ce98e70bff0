"""The file of the emulator's clock."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.base.clock_page import ClockFacts, ClockPage, followed
from shared.core.time import clock
from tests.emulator.harness import ROOT

AT = 1_800_000_000_000  # 2027-01-15 08:00:00 UTC
HOUR = 3_600_000
SOON = 1000  # ms that a step of a test may take


@pytest.fixture
def page(tmp_path: Path) -> ClockPage:
    return ClockPage(tmp_path / "clock")


def test_a_new_one_is_the_machine_s_and_has_nothing_to_say(page: ClockPage, tmp_path: Path) -> None:
    assert (page.facts.ahead_ms, page.facts.sentence) == (0, None)
    assert (tmp_path / "clock").stat().st_mode & 0o777 == 0o600


def test_it_stands_still_where_it_is_and_runs_on_from_there(page: ClockPage) -> None:
    page.set_to(AT)
    assert 0 <= page.now_ms() - AT < SOON
    page.freeze()
    stands_at = page.now_ms()
    assert (page.facts.is_frozen, page.now_ms()) == (True, stands_at)
    page.set_to(AT + HOUR)
    assert page.now_ms() == AT + HOUR, "a jump moves it, and it stands still there"
    page.go()
    assert (page.facts.is_frozen, 0 <= page.now_ms() - AT - HOUR < SOON) == (False, True)
    page.set_to(AT - 10 * HOUR)
    assert 0 <= page.now_ms() - AT + 10 * HOUR < SOON
    page.reset()
    assert page.facts.ahead_ms == 0


def test_a_speed_ends_with_its_emulator_and_the_rest_is_kept(page: ClockPage, tmp_path: Path) -> None:
    page.set_to(AT)
    page.go(60)
    later = ClockPage(tmp_path / "clock")
    assert later.facts.speed == 60
    later.go_on()
    assert (page.facts.speed, 0 <= page.now_ms() - AT < SOON) == (1, True)


def test_another_process_has_the_new_time_at_once(page: ClockPage, tmp_path: Path) -> None:
    """As a function's writer process, or the relay: another program of ours that starts on this clock."""
    (tmp_path / "tells.py").write_text("from shared.core.time import clock\nprint(clock.now_ms())\n")
    page.set_to(AT)
    page.freeze()
    page.set_to(AT)
    told = subprocess.run(
        [sys.executable, "-m", "emulator.processes.on_clock", str(tmp_path / "clock"), "tells"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(told.stdout) == AT
    with followed(tmp_path / "clock"):
        assert clock.now_ms() == AT
        page.set_to(AT + HOUR)
        assert clock.now_ms() == AT + HOUR
    assert clock.now_ms() != AT + HOUR


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (ClockFacts(AT, 0, is_frozen=False, speed=1), None),
        (
            ClockFacts(AT, 24 * HOUR - 40, is_frozen=False, speed=1),
            "the clock here is not the real one: it says 2027-01-15 08:00:00 UTC, 1 d ahead of the machine's",
        ),
        (
            ClockFacts(AT, -HOUR, is_frozen=True, speed=1),
            "the clock here is not the real one: it stands still at 2027-01-15 08:00:00 UTC, 1 h behind the machine's",
        ),
        (
            ClockFacts(AT, 3, is_frozen=False, speed=60),
            "the clock here is not the real one: it says 2027-01-15 08:00:00 UTC, as the machine's and runs up to 60 "
            "times as fast",
        ),
    ],
)
def test_it_says_loudly_that_it_is_not_the_real_one(facts: ClockFacts, sentence: str | None) -> None:
    assert facts.sentence == sentence
