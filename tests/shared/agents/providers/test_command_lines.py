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
    ],
)
def test_each_line_is_read_or_is_nothing(line, expected):
    assert event_of(json.dumps(line).encode()) == expected


WAITS = {1500: 1500, 0: 0, -5: 0, 1.9: 1, 10**4000: 10**12, float("inf"): 10**12, "1": None}


@pytest.mark.parametrize(
    "wait", WAITS, ids=[f"{each}"[:8] for each in ("1500", 0, -5, 1.9, "4000 digits", "inf", "text")]
)
def test_a_wait_of_any_size_is_read(wait):
    line = json.dumps({"type": "error", "message": "slow down", "wait_ms": wait})
    assert event_of(line.encode()).wait_ms == WAITS[wait]
