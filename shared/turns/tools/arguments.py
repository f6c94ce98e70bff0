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
    """The JSON schema of the arguments, as models get it: without references and titles, which some can't read."""
    found = tool.arguments.model_json_schema()
    parts = found.pop("$defs", {})
    plain: dict[str, Any] = _plain(found, parts)
    plain.pop("description", None)
    return {"type": "object", "properties": {}, **plain}


def _plain(node: Any, parts: Mapping[str, Any]) -> Any:
    """The schema with its *parts* in the places that refer to them, and without the titles made of the names."""
    if isinstance(node, list):
        return [_plain(each, parts) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(parts[node["$ref"].rpartition("/")[2]], parts)
    return {name: _plain(each, parts) for name, each in node.items() if name != "title" or not isinstance(each, str)}
