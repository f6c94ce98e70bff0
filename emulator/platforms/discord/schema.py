"""Checks bodies and answers against Discord's own OpenAPI document, and refuses in Discord's form.

``spec/discord.json`` holds the routes that the fake serves.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from emulator.platforms.discord.calls import DiscordError

SPEC = Path(__file__).parent.parent / "spec" / "discord.json"
_CODES = {
    "maxLength": ("BASE_TYPE_MAX_LENGTH", "Must be {0} or fewer in length."),
    "minLength": ("BASE_TYPE_MIN_LENGTH", "Must be at least {0} in length."),
    "maxItems": ("BASE_TYPE_MAX_LENGTH", "Must be {0} or fewer in length."),
    "minItems": ("BASE_TYPE_MIN_LENGTH", "Must be at least {0} in length."),
    "maximum": ("NUMBER_TYPE_MAX", "int value should be less than or equal to {0}."),
    "minimum": ("NUMBER_TYPE_MIN", "int value should be greater than or equal to {0}."),
    "enum": ("BASE_TYPE_CHOICES", "Value must be one of {0}."),
    "type": ("BASE_TYPE_BAD_TYPE", "Could not interpret the value as {0}."),
    "required": ("BASE_TYPE_REQUIRED", "This field is required"),
}


@cache
def _spec() -> dict[str, Any]:
    return dict(json.loads(SPEC.read_text()))


@cache
def _validator(part: str, route: str) -> Any:
    """The validator of *route*, e.g. ``POST /channels/{}/messages``; None if the document names no body there."""
    from jsonschema import Draft202012Validator  # with the first body that is checked

    schema = _spec()[part].get(route)
    return None if schema is None else Draft202012Validator({**schema, "schemas": _spec()["schemas"]})


def check_body(route: str, body: Any) -> None:
    """Raise 50035 where *body* does not fit; a route without a described body takes any."""
    validator = _validator("requests", _plain(route))
    error = _first(validator, body)
    if error is None:
        return
    code, words = _CODES.get(str(error.validator), ("BASE_TYPE_BAD_TYPE", "The value does not fit."))
    path = [str(part) for part in error.absolute_path]
    if error.validator == "required":
        missing = next((name for name in error.validator_value if name not in error.instance), "")
        path.append(str(missing))
    said: Mapping[str, Any] = {"_errors": [{"code": code, "message": words.format(error.validator_value)}]}
    for part in reversed(path):
        said = {part: said}
    raise DiscordError(400, 50035, "Invalid Form Body", errors=said)


def problem_of_answer(route: str, answer: Any) -> str | None:
    """What is wrong with an answer; None: it fits, or the document describes none."""
    error = _first(_validator("answers", _plain(route)), answer)
    return None if error is None else f"{error.json_path}: {error.message[:300]}"


def _first(validator: Any, value: Any) -> Any:
    """The deepest error, which says most; None if there is none."""
    from jsonschema.exceptions import best_match

    return None if validator is None else best_match(validator.iter_errors(value))


def _plain(route: str) -> str:
    """``{}`` in place of every parameter: its name is ours."""
    parts = [("{}" if part.startswith(("{", "@original")) else part) for part in route.split("/")]
    return "/".join(parts)
