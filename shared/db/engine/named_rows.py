"""Rows as the JSON objects that the API shows: one TypedDict names the columns of a query, in their order."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import typing_extensions

from shared.core.row_settings import settings_of

View = TypeVar("View")

NEWEST = 2**63 - 1
_CAPITAL = re.compile("[A-Z]")


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


def view_of(view: type[View], row: object, **own: Any) -> View:
    """The row as *view*, a TypedDict: ``createdAt`` is the row's ``created_at``.

    Args:
        own: fields that the row has not, or has in another form.
    """
    shown: Any = {
        field: own[field] if field in own else getattr(row, _CAPITAL.sub(_lowered, field))
        for field in view.__annotations__
    }
    return shown  # type: ignore[no-any-return]


def _lowered(capital: re.Match[str]) -> str:
    return f"_{capital[0].lower()}"


def shows_settings_of(row: type, name: Callable[[str], str] = str) -> Callable[[type[View]], type[View]]:
    """Give a view, a TypedDict, the settings of *row* behind its own fields; a field that it has stays its own.

    Args:
        name: what a setting is called in the view.
    """

    def with_settings(view: type[View]) -> type[View]:
        shown = {name(each.name): each.type for each in settings_of(row).values()}
        own = view.__annotations__
        typed_dict: Any = typing_extensions.TypedDict
        made: Any = typed_dict(view.__name__, own | {key: each for key, each in shown.items() if key not in own})
        made.__module__, made.__doc__ = view.__module__, view.__doc__
        return made  # type: ignore[no-any-return]

    return with_settings
