"""The arguments of a call, checked. An error names the argument, what is wrong with it, and what is allowed."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from shared.core.errors import ConfigInvalid
from shared.core.text import half_characters
from shared.core.text.validation import reason, where
from shared.turns.tools.base import Arguments, Tool

_MOST_PROBLEMS = 5  # a model that is wrong everywhere needs no list of everything
_SHOWN = 60  # characters of a name that the model made up
_MOST_SHOWN = {"maxLength": 5000, "maximum": 1_000_000}  # a larger limit is left out of the schema


def checked(tool: Tool, given: Mapping[str, Any]) -> Arguments:
    """The arguments as the tool takes them.

    Raises:
        ConfigInvalid: one is missing, unknown or wrong; the message says which, and what is allowed.
    """
    try:
        return tool.arguments.model_validate(_mended(given))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        sentences = dict.fromkeys(_sentence(tool, each) for each in problems[:_MOST_PROBLEMS])
        raise ConfigInvalid("; ".join(sentences)) from None


def _mended(given: Mapping[str, Any]) -> Any:
    """The arguments without half characters, which no database and no platform takes.

    Raises:
        ConfigInvalid: they are no JSON.
    """
    try:
        return json.loads(half_characters.mend_json(json.dumps(dict(given)).encode()))
    except (TypeError, ValueError, RecursionError):
        raise ConfigInvalid("the arguments are no JSON object that can be read") from None


def _sentence(tool: Tool, problem: ErrorDetails) -> str:
    name = where(problem)[:_SHOWN]
    if problem["type"] == "extra_forbidden":
        known = ", ".join(tool.arguments.model_fields) or "none"
        return f"there is no argument {name!r}; the arguments of {tool.name} are: {known}"
    if problem["type"] == "missing":
        return f"argument {name!r} is missing"
    return f"argument {name!r}: {reason(problem)}" if name else reason(problem)


def schema(tool: Tool) -> dict[str, Any]:
    """The JSON schema of the arguments, as models get it: without references and titles, which some can't read.

    Every turn pays for it, so it leaves out what no model needs: defaults that say nothing, limits that none reaches
    (an error names them all the same), and descriptions that stand in the schema of ``Tool.described_by``.
    """
    found = tool.arguments.model_json_schema()
    parts = found.pop("$defs", {})
    plain: dict[str, Any] = {"type": "object", "properties": {}, **_plain(found, parts)}
    plain.pop("description", None)
    for name in tool.described_by.model_fields if tool.described_by is not None else ():
        plain["properties"].get(name, {}).pop("description", None)
    return plain


def _plain(node: Any, parts: Mapping[str, Any]) -> Any:
    """The schema with its *parts* in the places that refer to them, and without the titles made of the names."""
    if isinstance(node, list):
        return [_plain(each, parts) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(parts[node["$ref"].rpartition("/")[2]], parts)
    return {name: _plain(each, parts) for name, each in node.items() if not _is_needless(name, each)}


def _is_needless(name: str, value: Any) -> bool:
    if name == "title":
        return isinstance(value, str)
    if name == "default":
        return value is None
    most = _MOST_SHOWN.get(name)
    return name == "propertyNames" or (name == "minLength" and value == 1) or (most is not None and value > most)
