"""Tables: what the plots show, in words and numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from spark_jobs.report.facts import Row
from spark_jobs.report.words import NOTHING, dollars, name, number, span

MOST_ROWS = 400


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people.

    Args:
        labels: how many of the first columns are no numbers.
        left_out: how many earlier rows it does not show.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int
    left_out: int = 0


_SHOWN: Mapping[str, Callable[[Any], str]] = {"ms": span, "dollars": dollars}


def table(rows: Sequence[Row], columns: Mapping[str, str], labels: int) -> Table:
    """The latest of *rows*, the newest first; *columns* are their headings by name.

    What a column holds is in the end of its name: ``_ms`` times, ``_dollars`` micro-dollars.
    """
    newest = list(reversed(rows))[:MOST_ROWS]
    shown = tuple(tuple(_cell(column, row[column]) for column in columns) for row in newest)
    return Table(tuple(columns.values()), shown, labels, len(rows) - len(newest))


def _cell(column: str, value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return name(value)
    if value is None:
        return NOTHING
    return _SHOWN.get(column.rpartition("_")[2], number)(value)
