"""What the real programs ask before they do it becomes an approval, in a running system."""

import itertools
import os
import signal

import pytest

from tests.e2e.conftest import until

pytestmark = pytest.mark.agents

_names = itertools.count(1)


@pytest.fixture
def claude(agents):
    return agents.make(f"asks-claude-{next(_names)}", "claude", config={"tools": "all", "ask": "changes"})


@pytest.fixture
def codex(agents):
    return agents.make(f"asks-codex-{next(_names)}", "codex", config={"tools": "files", "ask": "changes"})


def bash(command):
    return f'[[tool Bash {{"command": "{command}", "description": "x"}}]] [[result]]'


def until_asked(agents, bot, count=1):
    """The newest approval that *bot* waits for, of *count* in all."""

    def look():
        found = [each for each in agents.system.get("/api/approvals?limit=100")[1] if each["agent"] == bot]
        return found[0] if len(found) == count and found[0]["status"] == "pending" else None

    return until(f"approval {count} of {bot}", look, 40)


def decide(agents, approval, **body):
    return agents.system.call("POST", f"/api/approvals/{approval['approvalId']}/decide", body)


class TestClaude:
    def test_a_command_runs_once_it_is_allowed_and_is_asked_again_the_next_time(self, agents, claude):
        message = agents.send(claude, bash("touch here; ls here"))
        asked = until_asked(agents, claude)
        assert (asked["kind"], asked["payload"]["tool"]) == ("tool", "Bash")
        assert asked["payload"]["arguments"]["command"] == "touch here; ls here"
        assert asked["options"] == ["Allow once", "Refuse"]
        decide(agents, asked, approve=True)
        assert "here" in agents.answer(message)
        again = agents.send(claude, bash("touch here; ls here"))
        decide(agents, until_asked(agents, claude, 2), approve=False)
        assert "An approver refused it" in agents.answer(again)

    def test_a_file_that_is_always_allowed_is_asked_once(self, agents, claude):
        write = '[[tool Write {"file_path": "notes.md", "content": "one"}]] [[result]]'
        message = agents.send(claude, write)
        asked = until_asked(agents, claude)
        [path] = asked["payload"]["covers"].values()
        assert path.endswith("notes.md")
        decide(agents, asked, choice=1)
        assert "File created" in agents.answer(message)
        edit = '[[tool Write {"file_path": "notes.md", "content": "two"}]] [[result]]'
        agents.ask(claude, edit)
        [kept] = [each for each in agents.system.get("/api/permissions")[1] if each["agent"] == claude]
        assert (kept["uses"], kept["grantedName"]) == (1, "operator")

    def test_a_kill_of_dispatch_while_it_asks_allows_nothing_and_the_next_run_asks_anew(self, agents, claude):
        message = agents.send(claude, bash("touch killed; echo made"))
        asked = until_asked(agents, claude)
        os.kill(agents.system.pids()["dispatch"], signal.SIGKILL)
        assert agents.until_alone(claude) < 2
        second = until_asked(agents, claude, 2)
        assert agents.system.get(f"/api/approvals/{asked['approvalId']}")[1]["status"] == "expired"
        status, body = agents.system.post(f"/api/approvals/{asked['approvalId']}/decide", {"approve": True})
        assert status == 409, body
        assert list(agents.folder(claude).glob("homes/*/killed")) == []
        decide(agents, second, approve=True)
        assert "made" in agents.answer(message, 60)
        assert len(list(agents.folder(claude).glob("homes/*/killed"))) == 1


class TestCodex:
    def test_a_command_runs_once_it_is_allowed(self, agents, codex):
        message = agents.send(codex, '[[tool exec_command {"cmd": "touch here && ls here"}]] [[result]]')
        asked = until_asked(agents, codex)
        assert asked["payload"]["tool"] == "shell"
        assert "touch here && ls here" in asked["payload"]["arguments"]["command"]
        decide(agents, asked, approve=True)
        assert "here" in agents.answer(message)
        assert len(list(agents.folder(codex).glob("homes/*/here"))) == 1

    def test_a_command_that_is_refused_does_not_run_and_the_turn_goes_on(self, agents, codex):
        message = agents.send(
            codex, '[[tool exec_command {"cmd": "touch refused && echo made"}]] [[say it was not done]]'
        )
        decide(agents, until_asked(agents, codex), approve=False)
        assert agents.answer(message) == "it was not done"
        assert list(agents.folder(codex).glob("homes/*/refused")) == []
