"""What stands beside a scenario: the reports that it comes from, and the promise that forbids it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])

_SOURCE = re.compile(r"[\w.-]+/[\w.-]+#\d+")
PROMISES = {
    "P1": "stored before acknowledged",
    "P2": "once",
    "P3": "one turn at a time",
    "P6": "failure is visible and retried",
    "P7": "nothing said twice",
    "P8": "order, and the place it came from",
    "P9": "state is rows",
    "P10": "outsiders choose nothing",
    "P11": "secrets stay put",
    "P12": "said plainly",
}


@dataclass(frozen=True, slots=True)
class Report:
    """Where a failure was reported, what forbids it here, and what a system must offer for it to apply."""

    sources: tuple[str, ...]
    promise: str
    needs: frozenset[str]


def reported(*sources: str, promise: str, needs: str = "") -> Callable[[T], T]:
    """Mark a scenario.

    Args:
        sources: ``owner/repository#number`` of an issue or a pull request.
        promise: its number in docs/promises.md.
        needs: words of ``System.offers``.
    """
    assert sources
    assert all(map(_SOURCE.fullmatch, sources)), sources
    assert promise in PROMISES, promise

    def mark(scenario: T) -> T:
        scenario.report = Report(sources, promise, frozenset(needs.split()))  # type: ignore[attr-defined]
        return scenario

    return mark


def needs_of(item: Any) -> frozenset[str]:
    """What the scenario of a test item needs; nothing for other tests."""
    report = getattr(getattr(item, "function", None), "report", None)
    return report.needs if isinstance(report, Report) else frozenset()
