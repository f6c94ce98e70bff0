"""Rows as the JSON objects that the API shows: one TypedDict names the columns of a query, in their order."""

from collections.abc import Callable
from typing import Any, TypeVar

View = TypeVar("View")

NEWEST = 2**63 - 1


def named(view: type[View], found: list[tuple[Any, ...]], **read: Callable[[Any], Any]) -> list[View]:
    """The rows as *view*, a TypedDict whose fields have the order of the columns.

    Args:
        read: for a field that SQLite stores as something else, what turns the stored value into the shown one.
    """
    fields = tuple(view.__annotations__)
    shown: list[Any] = [dict(zip(fields, row, strict=True)) for row in found]
    for field, function in read.items():
        for each in shown:
            each[field] = function(each[field])
    return shown
