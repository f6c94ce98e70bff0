"""Views of rows: their fields are the settings that the row declares, and what the view adds or shows otherwise."""

from collections.abc import Callable
from typing import Any, TypeVar

import typing_extensions

from shared.core.row_settings import settings_of

View = TypeVar("View")


def shows_settings_of(row: type) -> Callable[[type[View]], type[View]]:
    """Give a view, a TypedDict, the settings of *row* as fields; a field that it has already stays its own."""

    def with_settings(view: type[View]) -> type[View]:
        shown = {name: each.type for name, each in settings_of(row).items()}
        typed_dict: Any = typing_extensions.TypedDict
        made: Any = typed_dict(view.__name__, {**shown, **view.__annotations__})
        made.__module__, made.__doc__ = view.__module__, view.__doc__
        return made  # type: ignore[no-any-return]

    return with_settings
