"""``codex exec``: recorded lines of 0.169.0."""

import json
from pathlib import Path

import pytest

from shared.agents.base import Init, Result
from shared.agents.providers.codex.dialogue import CodexTool
from shared.agents.providers.codex.exec_lines import ExecLines

EVENTS = Path(__file__).parents[4] / "events/codex"


def heard(name):
    lines = ExecLines(None)
    return [step for line in (EVENTS / f"exec_{name}.jsonl").read_bytes().splitlines() for step in lines.hear(line)]


def test_an_answer():
    init, result = heard("answer")
    assert isinstance(init, Init)
    assert result == Result("hi there")


def test_a_tool_call_has_a_beginning_and_an_end():
    tools = [step for step in heard("tool") if isinstance(step, CodexTool)]
    assert tools == [CodexTool(False, "send_message"), CodexTool(True, "send_message")]


@pytest.mark.parametrize(
    ("name", "code", "is_retryable"),
    [
        ("unauthorized", "auth", True),
        ("quota", "quota", True),
        ("overloaded", "overloaded", True),
        ("malformed", "malformed", True),
        ("refused", "error", False),
    ],
)
def test_each_recorded_error_becomes_its_failure(name, code, is_retryable):
    last = heard(name)[-1]
    assert (last.code, last.retryable) == (code, is_retryable)


def test_a_warning_in_the_form_of_an_error_item_is_no_failure():
    assert any(
        b'"type":"error","message":"Model metadata' in line
        for line in (EVENTS / "exec_answer.jsonl").read_bytes().splitlines()
    )
    assert heard("answer")[-1] == Result("hi there")


def test_a_new_thread_in_place_of_the_sessions_is_a_lost_session():
    (failed,) = ExecLines("t1").hear(json.dumps({"type": "thread.started", "thread_id": "t2"}).encode())
    assert failed.code == "session_lost"


@pytest.mark.parametrize(
    "line", [b"", b"Reading\n", b"[]\n", b'{"type": "new"}\n', b'{"type": "item.started", "item": 7}\n']
)
def test_a_line_that_it_does_not_know_means_nothing(line):
    assert list(ExecLines(None).hear(line)) == []
