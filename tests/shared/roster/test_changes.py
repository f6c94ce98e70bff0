"""A change of a row, as a model of its settings."""

import pytest
from pydantic import ValidationError

from shared.db.roster.agents import SETTINGS
from shared.roster.agents_and_teams import AgentChange


def test_a_change_has_every_setting_and_what_goes_with_them():
    assert list(AgentChange.model_fields) == [*SETTINGS, "share_folder", "default"]


def test_a_change_names_only_what_it_was_given():
    assert AgentChange.model_validate({"models": ["a"], "batch_size": None}).model_dump(exclude_unset=True) == {
        "models": ["a"],
        "batch_size": None,
    }


@pytest.mark.parametrize("given", [{"models": [""]}, {"models": None}, {"turn_timeout_ms": 99}, {"drafts": "yes"}])
def test_the_limits_of_the_row_hold(given):
    with pytest.raises(ValidationError):
        AgentChange.model_validate(given)


def test_its_schema_has_limits_and_descriptions_and_no_defaults():
    found = AgentChange.model_json_schema()["properties"]["batch_size"]
    limited = {"type": "integer", "minimum": 1, "maximum": 1000}
    assert found["anyOf"] == [limited, {"type": "null"}]
    assert found["description"] == "none: as POSTROOM_BATCH_SIZE says"
    assert "default" not in found
