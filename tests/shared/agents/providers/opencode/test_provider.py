"""The provider with a program in the place of opencode; the real one: ``make agents``."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from shared.agents.base import Init, Result
from shared.agents.programs.limits import Limits
from shared.agents.providers.opencode.provider import Opencode
from tests.shared.agents.providers.a_turn import make_turn
from tests.shared.agents.providers.claude.claude_program import OpenDoors

EVENTS = Path(__file__).parents[4] / "events/opencode"


@pytest.fixture
def run(tmp_path):
    """The events of a turn of a program that does this."""

    def running(script, idle_ms=30_000, **more):
        path = tmp_path / "opencode"
        path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo 1.18.33 && exit\n{script}\n')
        path.chmod(0o755)
        (tmp_path / "agent").mkdir()
        turn = make_turn(
            folder=tmp_path / "agent", leash="off", doors=OpenDoors(), config={"program": str(path)},
            limits=Limits(idle_ms=idle_ms), **more,
        )  # fmt: skip

        async def go():
            async with asyncio.timeout(30), contextlib.aclosing(Opencode().run(turn)) as events:
                return [event async for event in events]

        return asyncio.run(go())

    return running


def test_the_prompt_goes_over_standard_input_and_the_session_is_known_at_once(run, tmp_path):
    events = run(f"cat > said; cat {EVENTS / 'answer.jsonl'}", prompt="--help me")
    assert (tmp_path / "agent/said").read_text() == "--help me"
    assert isinstance(events[0], Init)
    assert events[-1] == Result("hi there")


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("printf '\\033[91mError: \\033[0mSession not found' >&2; exit 1", "session_lost"),
        ("exit 0", "crashed"),
        ("exit 3", "crashed"),
    ],
)
def test_an_end_without_an_answer_is_a_failure(run, script, code):
    (failed,) = run(script)
    assert failed.code == code
    assert "\x1b" not in failed.reason


def test_silence_is_ended_by_the_idle_limit(run):
    assert run("exec sleep 60", idle_ms=300)[-1].code == "idle_timeout"


def test_an_answer_that_never_ends_is_stopped(run):
    loop = 'while :; do echo \'{"type":"step_finish","sessionID":"ses_1","part":{"reason":"unknown"}}\'; done'
    assert run(loop)[-1].code == "malformed"
