"""A dispatch that starts says which versions of their programs its agents have, and starts no other program."""

import asyncio

import pytest
import structlog

from functions.dispatch import Dispatch
from shared.agents.programs import installed
from shared.core.settings import Settings
from tests.support import make_agent


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A ``claude`` and a ``codex`` which note that they were started; the notes' folder."""
    installed.tell.cache_clear()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("claude", "codex"):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho '2.2.0'\ntouch {tmp_path}/{name}.started\n")
        path.chmod(0o755)
    yield tmp_path
    installed.tell.cache_clear()


def started(folder):
    return sorted(path.stem for path in folder.glob("*.started"))


def start(until):
    """The log of a dispatch that starts, and stops once it has looked at all programs."""

    async def go():
        service = Dispatch(Settings.load())
        with structlog.testing.capture_logs() as lines:
            service.worker.begin()
            await until(lambda: service._versions is not None and service._versions.done())
            await service.close()
        return lines

    return asyncio.run(go())


def test_each_program_of_an_agent_is_named_once_before_any_turn(conn, until, programs):
    for name in ("ana", "ben"):
        make_agent(conn, name, provider="claude")
    lines = start(until)
    (line,) = [each for each in lines if each["event"] == "agent.program_found"]
    assert (line["program"], line["version"], line["tested"]) == ("claude", "2.2.0", "2.1.330")
    assert line["remark"] == "claude 2.2.0 is newer than 2.1.330, which this release of Postroom was tested with"
    assert started(programs) == ["claude"]


def test_without_such_agents_nothing_is_started(conn, until, programs):
    make_agent(conn, "ana", provider="echo")
    make_agent(conn, "ben", provider="command", config={"argv": ["true"]})
    assert [each for each in start(until) if each["event"].startswith("agent.")] == []
    assert started(programs) == []


def test_a_program_that_is_missing_and_a_wrong_config_are_named_and_stop_nothing(conn, until, programs):
    make_agent(conn, "ana", provider="claude", config={"colour": "blue"})
    make_agent(conn, "ben", provider="claude", config={"program": "/nowhere/claude"})
    make_agent(conn, "eve", provider="codex")
    lines = start(until)
    found = {each["event"]: each for each in lines if each["event"].startswith("agent.")}
    assert "colour" in found["agent.config_invalid"]["reason"]
    assert "'/nowhere/claude' is no program" in found["agent.program_missing"]["reason"]
    assert found["agent.program_found"]["program"] == "codex"
