"""Checks calls and answers against the Bot API's own description (10.3), in the words of Telegram's JSON parser.

``spec/telegram.json`` holds every method's parameters and every type's fields: ``[is required, type, type ...]``, and
as ``is`` the field that tells a type from its siblings, with its value.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

SPEC = Path(__file__).parent.parent / "spec" / "telegram.json"
# Where the server parses more than it takes, and has other words for the rest.
_PARSED_AS = {
    ("sendmediagroup", "media"): ["Array of InputMedia"],
    ("sendpoll", "options"): ["Array of InputPollOption", "Array of String"],  # libraries send the older form too
}
_UNDOCUMENTED = frozenset({"reply_to_message_id", "disable_web_page_preview"})  # old parameters that servers still take


@cache
def spec() -> dict[str, Any]:
    """The description, read with the first call."""
    return dict(json.loads(SPEC.read_text()))


def parameters(method: str) -> Mapping[str, list[Any]] | None:
    """The parameters of *method*, whose case does not matter; None if there is no such method."""
    name = name_of(method)
    return None if name is None else dict(spec()["methods"][name]["fields"])


def name_of(method: str) -> str | None:
    """The name as documented of a method in any case; None if there is no such method."""
    return _names().get(method.lower())


@cache
def _names() -> dict[str, str]:
    return {name.lower(): name for name in spec()["methods"]}


def unknown(method: str, params: Mapping[str, Any]) -> list[str]:
    """The names that *method* does not have."""
    known = parameters(method) or {}
    return sorted(name for name in params if name not in known and name not in _UNDOCUMENTED)


def problem_of_call(method: str, params: Mapping[str, Any]) -> str | None:
    """What Telegram's parser says about the first parameter that does not fit; None: all fit."""
    for name, (_, *types) in (parameters(method) or {}).items():
        value = params.get(name)
        if value in (None, ""):
            continue
        if isinstance(value, str) and not {"String", "Integer", "Float", "Boolean", "InputFile"} & set(types):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return f"can't parse {name} JSON object"
        elif isinstance(value, str) and "String" not in types and types != ["InputFile"]:
            value = _plain(value)
        found = _problem(value, _PARSED_AS.get((method.lower(), name), types), is_lenient=True)
        if found is not None:
            return f"can't parse {name}: {found}"
    return None


def problem_of_result(method: str, result: Any) -> str | None:
    """What is wrong with the result of *method*, strictly; None: it fits."""
    returns = spec()["methods"][_names()[method.lower()]]["returns"]
    return _problem(result, returns, is_lenient=False)


def problem_of(type_name: str, value: Any) -> str | None:
    """What is wrong with *value* as a *type_name*, strictly; None: it fits."""
    return _problem(value, [type_name], is_lenient=False)


def _plain(value: str) -> Any:
    if value.lower() in ("true", "false", "yes", "no"):
        return value.lower() in ("true", "yes")
    try:
        return json.loads(value)
    except ValueError:
        return value


def _problem(value: Any, types: list[str], *, is_lenient: bool) -> str | None:
    """None if *value* fits one of *types*; else what is wrong with the one that fits furthest."""
    found: list[str] = []
    arrays = [name.removeprefix("Array of ") for name in types if name.startswith("Array of ")]
    if arrays and isinstance(value, list):
        items = (_problem(item, arrays, is_lenient=is_lenient) for item in value)
        return next((problem for problem in items if problem is not None), None)
    for name in types:
        if name.startswith("Array of "):
            found.append(f"must be an {name}")
            continue
        problem = _problem_of_type(value, name, is_lenient=is_lenient)
        if problem is None:
            return None
        found.append(problem)
    return max(found, key=lambda problem: problem.count("field") + problem.count("Field")) if found else None


def _problem_of_type(value: Any, name: str, *, is_lenient: bool) -> str | None:
    if name in _SIMPLE:
        wanted = _SIMPLE[name]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = isinstance(value, wanted) and (name == "Boolean" or not isinstance(value, bool))
        if is_lenient and name == "String":
            fits = fits or is_number
        if is_lenient and name == "Boolean":
            fits = fits or value in (0, 1)
        if is_lenient and name in ("Integer", "Float") and isinstance(value, str):
            fits = value.removeprefix("-").isdigit()
        return None if fits else f"must be of type {name}"
    known = spec()["types"].get(name)
    if known is None:
        return f"there is no type {name}"
    if not isinstance(value, dict):
        return f"must be of type {name}"
    if "subtypes" in known:
        return _problem(value, known["subtypes"], is_lenient=is_lenient)
    return _problem_of_fields(value, name, known["fields"], is_lenient=is_lenient)


def _problem_of_fields(
    value: Mapping[str, Any], name: str, fields: Mapping[str, list[Any]], *, is_lenient: bool
) -> str | None:
    if (kind := spec()["types"][name].get("is")) is not None and value.get(kind[0]) != kind[1]:
        return f'"{kind[0]}" must be {kind[1]}'
    for field, (is_required, *types) in fields.items():
        if field not in value or value[field] is None:
            if is_required:
                return f'Can\'t find field "{field}" of {name}'
            continue
        problem = _problem(value[field], types, is_lenient=is_lenient)
        if problem is not None:
            return f'Field "{field}" of {name}: {problem}'
    strange = [] if is_lenient else sorted(set(value) - set(fields))
    return f"{name} has no field {strange[0]}" if strange else None


_SIMPLE: Mapping[str, Any] = {
    "String": str,
    "Integer": int,
    "Int": int,
    "Float": (int, float),
    "Boolean": bool,
    "True": bool,
    "InputFile": str,
}
