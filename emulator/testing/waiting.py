"""Waiting for a condition, in place of sleeping for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT_S = 90.0  # a busy machine takes its time; a test that waits for less says so
_OFTEN_S, _RARELY_S = 0.01, 0.1  # between two looks: the longer it takes, the longer
_SHARE = 20  # of the time that went by


def wait_until(condition: Callable[[], T | None], *, limit_s: float = LIMIT_S, what: str = "it") -> T:
    """The first true result of *condition*.

    Each look takes from the machine what the awaited work needs, so looks become rarer, down to ten a second.

    Raises:
        AssertionError: there was none within the limit; it names *what*.
    """
    began = time.monotonic()
    while (waited_s := time.monotonic() - began) < limit_s:
        if found := condition():
            return found
        time.sleep(min(max(_OFTEN_S, waited_s / _SHARE), _RARELY_S))
    raise AssertionError(f"{what} did not happen within {limit_s:g} s")
