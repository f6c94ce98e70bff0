"""The one sentence about a config that has not the form of its provider."""

import pytest
from pydantic import BaseModel, ConfigDict

from shared.agents import config_check
from shared.core.errors import ConfigInvalid


class Oven(BaseModel):
    model_config = ConfigDict(extra="forbid")

    degrees: int
    door: str = "shut"


def test_a_config_of_the_form_is_taken():
    assert config_check.checked(Oven, "oven", {"degrees": 180}) == Oven(degrees=180)


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(ConfigInvalid) as refused:
        config_check.checked(Oven, "oven", {"degrees": "warm", "lamp": True})
    assert "config for provider 'oven' is wrong: " in str(refused.value)
    assert "degrees" in str(refused.value)
    assert "lamp" in str(refused.value)
