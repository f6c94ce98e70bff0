"""What opencode writes: recorded lines of 1.18.33."""

import json
from pathlib import Path

import pytest

from shared.agents.base import Acted, Failed, Init
from shared.agents.providers.opencode.lines import MOST_BROKEN, OpencodeAnswer, OpencodeLines

EVENTS = Path(__file__).parents[4] / "events/opencode"


def heard(name):
    reading = OpencodeLines(None)
    return [step for line in (EVENTS / f"{name}.jsonl").read_bytes().splitlines() for step in reading.hear(line)]


def told(*parts, continuation=None):
    reading = OpencodeLines(continuation)
    lines = [json.dumps({"sessionID": "ses_1", **part}).encode() for part in parts]
    return [step for line in lines for step in reading.hear(line)]


START = {"type": "step_start"}
UNKNOWN = {"type": "step_finish", "part": {"reason": "unknown"}}


def test_an_answer():
    steps = heard("answer")
    assert isinstance(steps[0], Init)
    assert steps[-1] == OpencodeAnswer("hi there")


def test_a_tool_call_is_told_and_the_answer_is_what_follows_it():
    steps = heard("tool")
    assert [step for step in steps if isinstance(step, Acted | OpencodeAnswer)] == [
        Acted("postroom_send_message"),
        OpencodeAnswer("done"),
    ]


def test_a_recorded_error_is_a_failure():
    assert heard("unauthorized")[-1].code == "auth"


def test_the_endless_loop_of_unknown_ends_is_cut_short():
    steps = told(*[START, UNKNOWN] * 20)
    assert next(i for i, step in enumerate(steps) if isinstance(step, Failed)) <= 2 * MOST_BROKEN
    assert next(step for step in steps if isinstance(step, Failed)).code == "malformed"


def test_steps_that_begin_again_without_an_end_are_broken_too():
    assert [type(step) for step in told(*[START] * 4)].count(Failed) == 1
    assert not any(isinstance(step, Failed) for step in told(*[START] * 3))


def test_a_step_with_a_tool_begins_the_count_anew():
    parts = [START, UNKNOWN, START, UNKNOWN, START, {"type": "tool_use", "part": {"tool": "x"}}, UNKNOWN]
    assert not any(isinstance(step, Failed) for step in told(*parts))


def test_a_new_session_in_place_of_the_chats_is_a_lost_session():
    (failed,) = told(START, continuation="ses_2")[:1]
    assert failed.code == "session_lost"


@pytest.mark.parametrize("line", [b"", b"> build\n", b"[]\n", b'{"type": "new"}\n', b'{"type": "text", "part": 7}\n'])
def test_a_line_that_it_does_not_know_means_nothing(line):
    assert list(OpencodeLines(None).hear(line)) == []
