"""What the report knows: the rows of the jobs' outputs, and the instant that they show."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

Row = Mapping[str, Any]
"""One row of a job's output: its columns by name. ``day`` is a date."""

WEEK_DAYS = 7


@dataclass(frozen=True, slots=True)
class Facts:
    """All of it.

    Args:
        at_ms: the position of the mart, in ms UTC.
        now_ms: when the report is made.
        rows: by the name of the job.
        absent: by the name of the job: why it could not run over this mart.
        restored_ms: for each later history of the replica: from which instant rows were read again.
        complete_from: rows of earlier days are missing in the mart; None: no hole is large.
        whole: rows of the mart's tables without days, at its position, by the name of the table.
    """

    at_ms: int
    now_ms: int
    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    restored_ms: tuple[int, ...] = ()
    complete_from: date | None = None
    whole: Mapping[str, Sequence[Row]] = field(default_factory=dict)

    @property
    def today(self) -> date:
        return datetime.fromtimestamp(self.at_ms / 1000, UTC).date()

    def all(self, job: str) -> Sequence[Row]:
        return self.rows.get(job, ())

    def days(self, job: str, first: int, last: int = 0) -> list[Row]:
        """The rows of the days from *first* to *last*, counted back from today (0)."""
        begin, end = self.back(first), self.back(last)
        return [row for row in self.all(job) if begin <= row["day"] <= end]

    def week(self, job: str) -> list[Row]:
        """The rows of today and the six days before."""
        return self.days(job, WEEK_DAYS - 1)

    def week_before(self, job: str) -> list[Row]:
        """The rows of the seven days before; none where the mart is incomplete then."""
        if not self.is_complete(self.back(2 * WEEK_DAYS - 1)):
            return []
        return self.days(job, 2 * WEEK_DAYS - 1, WEEK_DAYS)

    def is_complete(self, day: date) -> bool:
        """Whether the mart has all rows of *day*, so that it may be compared with others."""
        return self.complete_from is None or day >= self.complete_from

    def has_week_before(self, job: str) -> bool:
        """Whether the week before can be compared: the job tells of it, and of a day on or before its first."""
        begin = self.back(2 * WEEK_DAYS - 1)
        return bool(self.week_before(job)) and any(row["day"] <= begin for row in self.all(job))

    def back(self, days: int) -> date:
        """The day so many days before today."""
        return self.today - timedelta(days=days)

    def first_day(self) -> date | None:
        """The first day that any job tells of."""
        return min((row["day"] for rows in self.rows.values() for row in rows), default=None)


def total(rows: Sequence[Row], column: str) -> int:
    """The sum of a column."""
    return sum(row[column] or 0 for row in rows)


def by(rows: Sequence[Row], key: str | Callable[[Row], Any], column: str) -> dict[Any, int]:
    """The sums of a column by the value of another, the largest first; equal ones in the order of their keys."""
    sums: dict[Any, int] = {}
    for row in rows:
        at = key(row) if callable(key) else row[key]
        sums[at] = sums.get(at, 0) + (row[column] or 0)
    return dict(sorted(sums.items(), key=lambda each: (-each[1], str(each[0]))))


def grouped(rows: Sequence[Row], key: str) -> Iterator[tuple[Any, list[Row]]]:
    """The rows of each value of a column, in the order of the values."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    yield from sorted(groups.items(), key=lambda each: str(each[0]))
