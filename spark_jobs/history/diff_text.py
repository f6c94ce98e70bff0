"""A diff as text for people: the positions that were compared, the counts, what can't be compared, and rows."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from spark_jobs.history.changes import TableDiff, first_changes
from spark_jobs.history.spans import Span, told

_SHOWN = 60


def summary(span: Span, tables: Sequence[TableDiff], *, rows: int = 0) -> str:
    """The whole text; *rows*: how many changed rows of each table it shows."""
    lines = [*_positions(span), "", *_counts(tables), *_notes(tables)]
    for each in tables:
        if rows and each.is_changed:
            lines += ["", *_rows(span, each, rows)]
    return "\n".join(lines) + "\n"


def _positions(span: Span) -> Iterator[str]:
    yield f"from  {told(span.old.pin)}"
    yield f"to    {told(span.new.pin)}"
    if span.old.pin == span.new.pin:
        yield "Both are one position: the replica has none in between, so nothing is known to have changed."
    if span.crosses_epochs:
        was, is_ = (copy.epoch or "without a name" for copy in (span.old, span.new))
        yield (
            f"A restore lies in between (epoch {was}, then {is_}). Commits that it lost count as deleted, and a number "
            "that was given again counts as a deleted and an inserted row."
        )


def _counts(tables: Sequence[TableDiff]) -> Iterator[str]:
    compared = [each for each in tables if each.counts is not None]
    width = max((len(each.table.name) for each in compared), default=0)
    yield _line("table".ljust(width), "before", "after", "inserted", "changed", "deleted", "changed columns")
    for each in compared:
        counts = each.counts
        if counts is None or not each.is_changed:
            continue
        columns = ", ".join(f"{name} {rows}" for name, rows in sorted(counts.changes.items(), key=lambda it: -it[1]))
        name = each.table.name.ljust(width)
        yield _line(name, counts.before, counts.after, counts.inserted, counts.changed, counts.deleted, columns)
    same = [each.table.name for each in compared if not each.is_changed]
    if same:
        yield f"unchanged: {', '.join(same)}"


def _line(name: str, before: object, after: object, *others: object) -> str:
    inserted, changed, deleted, columns = others
    return f"{name}{before:>12}{after:>12}{inserted:>10}{changed:>10}{deleted:>10}  {columns}".rstrip()


def _notes(tables: Sequence[TableDiff]) -> Iterator[str]:
    """What the schemas of the two positions do not share."""
    for each in tables:
        table = each.table
        if table.incomparable:
            yield f"not compared: {table.name}: {table.incomparable}"
        elif table.old is None:
            yield f"{table.name} is not at the earlier position: a later release added it"
        elif table.new is None:
            yield f"{table.name} is not at the later position: a later release removed it"
        for names, what in (
            (table.added, "only at the later position"),
            (table.dropped, "only at the earlier position"),
            (table.retyped, "of another type at the earlier position"),
        ):
            if names:
                yield f"{table.name}: columns {what}: {', '.join(names)}"


def _rows(span: Span, each: TableDiff, limit: int) -> Iterator[str]:
    counts = each.counts
    total = counts.inserted + counts.changed + counts.deleted if counts else 0
    for change in first_changes(span, each.table, limit):
        yield f"{each.table.name} {_named(change['key'])}: {change['change']}"
        for name in change["new"] | change["old"]:
            yield f"    {name}: {_sides(change, name)}"
    if total > limit:
        yield f"... {total - limit} more rows of {each.table.name}: --rows {total} shows them, --out writes them"


def _named(key: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={as_word(value)}" for name, value in key.items())


def _sides(change: Mapping[str, Any], name: str) -> str:
    if change["change"] != "update":
        return as_word((change["new"] or change["old"])[name])
    return f"{as_word(change['old'][name])} -> {as_word(change['new'][name])}"


def as_word(value: object, *, most: int = _SHOWN) -> str:
    """A value in a line of a terminal: instants as such, text in quotes, control characters escaped, cut when long."""
    if value is None or isinstance(value, int):
        return "NULL" if value is None else str(value)
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    word = repr(value)
    return word if len(word) <= most else word[: most - 4] + "..." + word[-1]
