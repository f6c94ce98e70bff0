from typing import get_args

import pytest

from shared.core import failures
from shared.core.failures import FailureCode, follows

EVERY = get_args(FailureCode)
PAUSING = ("auth", "quota", "budget", "bad_config", "not_installed", "model_not_found")
FINAL = ("output_limit", "disk_limit", "chain_cost", "runaway", "context_too_long")


@pytest.mark.parametrize("code", EVERY)
def test_each_failure_of_a_turn_that_has_spoken_ends_it_or_lets_it_go_on_once(code):
    assert follows(code, has_spoken=True) == "end"
    assert follows(code, has_wait=True, has_spoken=True) == "end"
    assert follows(code, retryable=False, has_spoken=True, may_go_on=True) == "go_on"


@pytest.mark.parametrize("code", EVERY)
def test_what_follows_a_silent_turn_depends_on_its_failure(code):
    expected = "keep" if code in PAUSING else "end" if code in FINAL else "retry"
    assert follows(code) == expected
    assert follows(code, has_wait=True) == ("keep" if code in PAUSING else "wait")
    assert follows(code, retryable=False) == ("keep" if code in PAUSING else "end")


def test_a_turn_that_has_said_nothing_never_goes_on():
    assert all(follows(code, may_go_on=True) != "go_on" for code in EVERY)


def test_the_words_that_pause_an_agent():
    assert set(PAUSING) == failures.PAUSING
