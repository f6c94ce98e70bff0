"""Filters of Spark as SQL, where SQLite answers exactly as Spark does."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import DataType, DoubleType, LongType, StringType, TimestampType

from spark_jobs.copies import quoted

MAX_IN = 500
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_OPERATORS: Mapping[type[Filter], str] = {
    EqualTo: "=",
    EqualNullSafe: "IS",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter as SQL over one column, with its bound values."""

    column: str
    sql: str
    values: tuple[Any, ...] = ()


def as_condition(asked: Filter, types: Mapping[str, DataType]) -> Condition | None:
    """*asked* as SQL, or None where SQLite could answer differently from Spark."""
    path: tuple[str, ...] = getattr(asked, "attribute", ())
    if len(path) != 1 or path[0] not in types:
        return None
    column, kind = path[0], types[path[0]]
    # Spark compares bytes and ignores the declared collation of the column.
    sql = quoted(column) + (" COLLATE BINARY" if isinstance(kind, StringType) else "")
    if isinstance(asked, IsNull):
        return Condition(column, f"{sql} IS NULL")
    if isinstance(asked, IsNotNull):
        return Condition(column, f"{sql} IS NOT NULL")
    if isinstance(asked, In):
        values = tuple(_stored(value, kind) for value in asked.value)
        if not 0 < len(values) <= MAX_IN or not all(_agrees(value, kind) for value in values):
            return None
        return Condition(column, f"{sql} IN ({', '.join('?' * len(values))})", values)
    operator = _OPERATORS.get(type(asked))
    if operator is None or not _agrees(value := _stored(cast(EqualTo, asked).value, kind), kind):
        return None
    return Condition(column, f"{sql} {operator} ?", (value,))


def _stored(value: object, kind: DataType) -> object:
    """A timestamp as the database has it; one between two milliseconds stays what it is, and so with Spark."""
    if not isinstance(kind, TimestampType) or not isinstance(value, datetime) or value.microsecond % 1000:
        return value
    at = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (at - _BEGIN) // timedelta(milliseconds=1)


def _agrees(value: object, kind: DataType) -> bool:
    """Whether *value* is a literal of the column's own type, so that no conversion changes the comparison."""
    if isinstance(kind, LongType | TimestampType):
        return type(value) is int and -(2**63) <= value < 2**63
    if isinstance(kind, DoubleType):
        return type(value) is float and not math.isnan(value)  # Spark's NaN equals itself; SQLite binds it as NULL
    return type(value) is (str if isinstance(kind, StringType) else bytes)
