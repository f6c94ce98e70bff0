"""The options of a command that sets a row, and the facts of one that shows it: both from the row's settings."""

import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from emulator.base import errors
from shared.core.row_settings import SettingField
from shared.core.time.durations import parse_ms

Settings = Mapping[str, SettingField]


def parameters(settings: Settings, own: Sequence[inspect.Parameter]) -> list[inspect.Parameter]:
    """The parameters of a command: one for each setting, and its own, each behind the setting that its name names."""
    found = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(each))
        for name, each in settings.items()
    ]
    for each in own:
        behind = next((at for at, other in enumerate(found, 1) if other.name in each.name), len(found))
        found.insert(behind, each)
    return found


def _option(each: SettingField) -> Any:
    """Its option. What may be nothing is a text, because ``""`` stands for that."""
    if each.kind is bool:
        flag = f"{each.option}/--no-{each.option.removeprefix('--')}"
        return Annotated[bool | None, typer.Option(flag, help=each.says.help)]
    kind = each.type if each.words else int if each.kind is int and not each.may_be_none else str
    return Annotated[kind | None, typer.Option(each.option, help=each.says.help)]


def read(settings: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the options that were given, as REST takes them.

    Raises:
        UsageError: the text of an option can't be read.
    """
    return {name: _value(settings[name], value) for name, value in given.items() if value is not None}


def _value(each: SettingField, given: Any) -> Any:
    if not isinstance(given, str):
        return given
    if each.kind is list:
        return [part for part in (text.strip() for text in given.split(",")) if part]
    if each.kind is dict:
        return _object(each.option, given)
    if not given and each.may_be_none:
        return None
    if each.kind is not int:
        return given
    return _duration(each.option, given) if each.unit == "ms" else _number(each.option, given)


def _object(option: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise errors.UsageError(f"{option} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise errors.UsageError(f'{option} must be a JSON object, such as {{"argv": ["./agent.sh"]}}')
    return found


def _duration(option: str, text: str) -> int:
    try:
        return parse_ms(text)
    except ValueError as error:
        raise errors.UsageError(f"{option}: {error}") from None


def _number(option: str, text: str) -> int:
    if not text.isdecimal():
        raise errors.UsageError(f"{option} must be a whole number, not {text!r}")
    return int(text)


def facts(settings: Settings, row: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a row that REST answered, as people read them."""
    return {each.says.label: _shown(each, row[name]) for name, each in settings.items()}


def _shown(each: SettingField, value: Any) -> Any:
    if each.kind is bool:
        return each.says.yes if value else "(no)"
    if value is None:
        return "(default)"
    if each.unit:
        return f"{value / 1000:g} s" if each.unit == "ms" else f"{value} {_UNITS[each.unit]}"
    if each.kind is list:
        return ", ".join(value) or "(none)"
    return value if value != "" else "(none)"


_UNITS = {"bytes": "bytes", "mb": "MB"}
