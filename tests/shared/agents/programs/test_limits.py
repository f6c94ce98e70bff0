"""The words for an end by a limit."""

import re

import pytest

from shared.agents.programs.limits import Limits
from shared.core.row_settings import settings_of
from shared.db.roster.agents import Agent

SETTINGS = [
    each for each in settings_of(Agent).values() if re.search("_timeout_ms$|(output|memory|disk)_limit_", each.name)
]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: each.name)
def test_the_command_in_the_words_is_one_of_the_command_line(setting):
    said = Limits(agent="coder").ended("it slept", setting.name)
    assert said.startswith(f"it slept, so Postroom ended it ({setting.name} of the agent is the limit; ")
    assert f"`emulator agents set coder {setting.option} " in said


def test_all_limits_are_settings():
    assert len(SETTINGS) == 6
