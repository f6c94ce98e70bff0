"""The lines of the provider ``command``."""

import json

import pytest

from shared.agents.base import Used
from shared.agents.providers.command_lines import ProgramCall, event_of


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"type": "usage", "model": "m", "input": 1}, Used("m", 1)),
        ({"type": "usage", "model": "m", "output": 2, "cache_read": 3, "cache_write": 4}, Used("m", 0, 2, 3, 4)),
        ({"type": "usage", "model": "m", "input": -1}, None),
        ({"type": "usage", "model": "m", "input": 10**15}, None),
        ({"type": "usage", "model": "m", "input": "many"}, None),
        ({"type": "usage", "input": 1}, None),
        ({"type": "tool_call", "id": 7, "name": "x", "arguments": {"a": 1}}, ProgramCall("7", "x", {"a": 1})),
        ({"type": "tool_call", "name": "x", "arguments": "no object"}, ProgramCall(None, "x", {})),
        ({"type": "of a later release"}, None),
    ],
)
def test_each_line_is_read_or_is_nothing(line, expected):
    assert event_of(json.dumps(line).encode()) == expected
