"""What is usual, and what is much slower than that."""

from collections.abc import Sequence
from datetime import date
from statistics import median

from spark_jobs.report.facts import Facts, Row

FRESH_DAYS = 1
"""What happened today or so many days before is not over yet."""
LEAST_SLOW_MS = 30_000
LEAST_DAYS = 3
LEAST_TIMES = 5
"""Percentiles of fewer times say little."""


def is_fresh(facts: Facts, row: Row) -> bool:
    """Whether the row is of today or yesterday."""
    return bool(row["day"] >= facts.back(FRESH_DAYS))


def slower(facts: Facts, rows: Sequence[Row], column: str, counted: str) -> tuple[date, int, float] | None:
    """The slowest fresh day, its time and the usual one in ms; None where it is not three times the usual one.

    Days of which the mart lacks rows say nothing about what is usual.


    Args:
        column: times in ms.
        counted: of so many.
    """
    known = [row for row in rows if row[column] is not None and row[counted] >= LEAST_TIMES]
    usual = [row[column] for row in known if not is_fresh(facts, row) and facts.is_complete(row["day"])]
    fresh = [row for row in known if is_fresh(facts, row)]
    if len(usual) < LEAST_DAYS or not fresh:
        return None
    slowest = max(fresh, key=lambda row: row[column])
    is_slow = slowest[column] >= max(LEAST_SLOW_MS, 3 * median(usual))
    return (slowest["day"], slowest[column], median(usual)) if is_slow else None
