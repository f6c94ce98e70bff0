"""The settings of a row, as its dataclass declares them."""

from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

import pytest
from annotated_types import Le

from shared.core.row_settings import RowSetting, camel, settings_of

TEXTS = RowSetting("What it does.", "label")


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    name: Annotated[str, TEXTS]
    wait_time_ms: Annotated[int | None, Le(9), TEXTS] = None
    tags: Annotated[list[Annotated[str, Le(3)]], TEXTS] = field(default_factory=lambda: ["a"])
    is_open: Annotated[bool, TEXTS] = False
    created_at: Annotated[int, Le(5)] = 0


FOUND = settings_of(Row)


def test_the_settings_are_the_fields_that_say_so_in_their_order():
    assert list(FOUND) == ["name", "wait_time_ms", "tags", "is_open"]
    assert {each.says for each in FOUND.values()} == {TEXTS}


def test_a_setting_has_the_default_of_its_field():
    assert [each.default for each in FOUND.values()] == [None, None, ["a"], False]


def test_its_type_has_no_limits_and_its_annotation_has_them():
    assert FOUND["tags"].type == list[str]
    assert FOUND["wait_time_ms"].annotation == Annotated[int | None, Le(9), TEXTS]


@pytest.mark.parametrize(
    ("name", "kind", "may_be_none", "unit", "option"),
    [
        ("name", str, False, "", "--name"),
        ("wait_time_ms", int, True, "ms", "--wait-time"),
        ("tags", list, False, "", "--tags"),
        ("is_open", bool, False, "", "--is-open"),
    ],
)
def test_kind_unit_and_option_follow_from_type_and_name(name, kind, may_be_none, unit, option):
    each = FOUND[name]
    assert (each.kind, each.may_be_none, each.unit, each.option) == (kind, may_be_none, unit, option)


class Pair(NamedTuple):
    id: int
    mode: Annotated[Literal["one", "two"], RowSetting("What it does.", "label", option="--how")] = "two"


def test_a_named_tuple_has_settings_too_and_an_option_may_have_another_name():
    (mode,) = settings_of(Pair).values()
    assert (mode.default, mode.kind, mode.words, mode.option) == ("two", str, ("one", "two"), "--how")


def test_rest_may_write_a_name_as_one_word():
    assert [camel(name) for name in ("priority", "ignored_message_policy")] == ["priority", "ignoredMessagePolicy"]
