"""Changes of rows as pydantic models: their fields are the settings that the row declares."""

from collections.abc import Callable, Collection
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, create_model

from shared.core.row_settings import settings_of

Change = TypeVar("Change", bound=BaseModel)


def takes_settings_of(
    row: type, name: Callable[[str], str] = str, only: Collection[str] | None = None, *, is_new: bool = False
) -> Callable[[type[Change]], type[Change]]:
    """Give a model the settings of *row* as fields, each of which may be left out.

    Args:
        name: what a setting is called in the model.
        only: the settings that it takes; None: all.
        is_new: the row does not exist yet: what is left out has its default.
    """

    def with_settings(model: type[Change]) -> type[Change]:
        fields: dict[str, Any] = {
            name(each.name): (
                Annotated[each.annotation, Field(description=each.says.description)],
                each.default if is_new else None,
            )
            for each in settings_of(row).values()
            if only is None or each.name in only
        }
        return create_model(
            model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **fields
        )

    return with_settings


def without_defaults(schema: dict[str, Any]) -> None:
    """Take the defaults out of a change's JSON schema, because a field that is not named stays."""
    for each in schema["properties"].values():
        each.pop("default", None)
