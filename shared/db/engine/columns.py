"""A dataclass as the row of a table: its fields are the columns, in the same order."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any, Generic, TypeVar, get_origin, get_type_hints

Row = TypeVar("Row")

_READ: dict[Any, Callable[[Any], Any]] = {bool: bool, dict: json.loads, list: json.loads}


class Columns(Generic[Row]):
    """The columns of *row*. A truth value is stored as 0 or 1, a list or a dict as JSON.

    Attributes:
        selected: the list for a SELECT.
    """

    def __init__(self, row: type[Row]) -> None:
        kinds = {name: get_origin(hint) or hint for name, hint in get_type_hints(row).items()}
        self._row = row
        self._names = tuple(field.name for field in fields(row))  # type: ignore[arg-type]
        self._read = {name: _READ[kinds[name]] for name in self._names if kinds[name] in _READ}
        self.selected = listed(self._names)

    def read(self, stored: Sequence[Any]) -> Row:
        """The row from the columns of ``selected``."""
        values = dict(zip(self._names, stored, strict=True))
        for name, read in self._read.items():
            values[name] = read(values[name])
        return self._row(**values)

    def bindings(self, row: Row) -> dict[str, Any]:
        """The stored values of the row, by column."""
        return {name: _stored(getattr(row, name)) for name in self._names}


def _stored(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def listed(names: Iterable[str], table: str = "") -> str:
    """``name, model``: the columns of a SELECT or an INSERT; with the table ``a.`` of a join, ``a.name, a.model``."""
    return ", ".join(f"{table}{name}" for name in names)


def bound(names: Iterable[str]) -> str:
    """``:name, :model``: their values."""
    return ", ".join(f":{name}" for name in names)


def assigned(names: Iterable[str]) -> str:
    """``name = :name, model = :model``: their change in an UPDATE."""
    return ", ".join(f"{name} = :{name}" for name in names)


def replaced(names: Iterable[str]) -> str:
    """``name = excluded.name, model = excluded.model``: their change where the row exists."""
    return ", ".join(f"{name} = excluded.{name}" for name in names)
