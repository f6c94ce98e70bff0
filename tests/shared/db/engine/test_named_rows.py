"""Rows as the JSON objects that the API shows."""

from typing import Annotated, NamedTuple

import pytest
from typing_extensions import TypedDict

from shared.core.row_settings import RowSetting, camel
from shared.db.engine.named_rows import shows_settings_of, view_of

SAYS = RowSetting("What it does.", "label")


class Row(NamedTuple):
    id: int
    made_at: int
    secret: str
    is_open: Annotated[bool, SAYS] = True
    title: Annotated[str, SAYS] = "t"


class Shown(TypedDict):
    id: int
    madeAt: int
    age: int


@shows_settings_of(Row, camel)
class Settings(TypedDict):
    """What it shows."""

    id: int
    title: int


def test_a_view_has_what_it_names_of_the_row_and_what_it_is_given():
    assert view_of(Shown, Row(1, 2, "hidden"), age=3) == {"id": 1, "madeAt": 2, "age": 3}
    assert view_of(Shown, Row(1, 2, "hidden"), age=3, madeAt=9)["madeAt"] == 9


def test_a_view_of_what_no_row_has_is_an_error():
    with pytest.raises(AttributeError, match="age"):
        view_of(Shown, Row(1, 2, "hidden"))


def test_a_view_has_the_settings_behind_its_own_fields():
    assert Settings.__annotations__ == {"id": int, "title": int, "isOpen": bool}
    assert (Settings.__name__, Settings.__doc__) == ("Settings", "What it shows.")
