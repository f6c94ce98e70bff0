"""Worlds in which everything goes wrong: 60 that are always the same, 20 that nobody has seen, and the kept ones."""

import pytest

from tests.simulation.test_simulation import simulate

pytestmark = [pytest.mark.long, pytest.mark.any_python]

LIMIT_S = 900  # of real time, on a busy machine; a world has a limit of its own


@pytest.mark.parametrize("first", [1, 21, 41])
def test_sixty_worlds_keep_every_promise(first):
    """Twenty in a test, so that several processes share them."""
    assert "0 of 20 worlds failed" in simulate("--start", str(first), "--worlds", "20", limit_s=LIMIT_S)


def test_twenty_new_worlds_keep_every_promise():
    """A failure names its seed, which repeats it: add it to ``seeds.txt`` when the fault is mended."""
    assert "0 of 20 worlds failed" in simulate("--worlds", "20", limit_s=LIMIT_S)


def test_what_a_seed_has_found_stays_mended():
    assert " 0 of " in f" {simulate('--kept', limit_s=LIMIT_S).splitlines()[-2]}"
