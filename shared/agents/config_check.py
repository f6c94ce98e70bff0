"""Checks an agent's ``config`` against the form that its provider has for it."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from shared.core.errors import ConfigInvalid
from shared.core.text.validation import reason, where

Form = TypeVar("Form", bound=BaseModel)


def checked(form: type[Form], provider: str, config: Mapping[str, Any]) -> Form:
    """The config in its form.

    Raises:
        ConfigInvalid: says which entries are wrong, and why.
    """
    try:
        return form.model_validate(dict(config))
    except ValidationError as error:
        problems = "; ".join(f"{where(each)}: {reason(each)}" for each in error.errors())
        raise ConfigInvalid(f"config for provider {provider!r} is wrong: {problems}") from None
