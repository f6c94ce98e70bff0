"""The settings of a row: what an operator may choose of it, declared once, as fields of the row's type.

::

    concurrency: Annotated[int, Ge(1), Le(1000), RowSetting("How many turns may run at once.", "turns at once")] = 1

The type, the limits and the default are the field's own. From this one line come the column, the field of the REST
body and of the view, the option of the command line, the key of ``postroom.toml`` and the line in the docs.
"""

from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

_UNITS = ("ms", "bytes", "mb")  # a name ends with its unit


@dataclass(frozen=True, slots=True)
class RowSetting:
    """What people read of a setting.

    Args:
        help: a sentence for an operator who sets it.
        label: before its value, where it is shown.
        description: for a programmer, in the OpenAPI document.
        unset: what a new row has instead of a value, where that is no constant.
        yes: what a true one is shown as.
        option: on the command line, where its name would be long.
    """

    help: str
    label: str
    description: str | None = None
    unset: str = ""
    yes: str = "yes"
    option: str | None = None


class SettingField(NamedTuple):
    """A field of a row that is a setting.

    Args:
        type: what Python knows of it, without limits.
        annotation: the type with its limits, as pydantic reads them.
        default: of a new row; None where it has none.
    """

    name: str
    type: Any
    annotation: Any
    default: Any
    says: RowSetting

    @property
    def kind(self) -> type:
        """The type of a value: ``int`` for ``int | None``, ``list`` for ``list[str]``, ``str`` for words."""
        parts = get_args(self.type)
        found: type = parts[0] if self.may_be_none else get_origin(self.type) or self.type
        return str if self.words else found

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it may be, if it is one of a few."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def may_be_none(self) -> bool:
        """Whether a row may have no value of its own."""
        return type(None) in get_args(self.type)

    @property
    def unit(self) -> str:
        """``ms``, ``bytes``, ``mb``, or empty."""
        last = self.name.rpartition("_")[2]
        return last if last in _UNITS else ""

    @property
    def option(self) -> str:
        """Its option of the command line: ``--turn-timeout``."""
        return self.says.option or "--" + self.name.removesuffix(f"_{self.unit}").replace("_", "-")


def settings_of(row: Any) -> dict[str, SettingField]:
    """The settings of *row*, a dataclass or a NamedTuple, by name and in their order."""
    plain, full, defaults = get_type_hints(row), get_type_hints(row, include_extras=True), _defaults(row)
    return {
        name: SettingField(name, plain[name], annotation, defaults.get(name), says)
        for name, annotation in full.items()
        for says in get_args(annotation)
        if isinstance(says, RowSetting)
    }


def _defaults(row: Any) -> dict[str, Any]:
    if not is_dataclass(row):
        found: dict[str, Any] = row._field_defaults
        return found
    made = {each.name: each.default_factory() for each in fields(row) if each.default_factory is not MISSING}
    return made | {each.name: each.default for each in fields(row) if each.default is not MISSING}


def camel(name: str) -> str:
    """``engageMode``: the name in those parts of REST that write names so."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
