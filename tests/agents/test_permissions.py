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


class TestFilesOfClaude:
    """``tools: files`` ends at the agent's folder, and ``ask: beyond`` asks for what lies outside."""

    @pytest.fixture
    def clerk(self, agents, tmp_path):
        (tmp_path / "rates.txt").write_text("8.1 percent")
        config = {"tools": "files", "readable": [str(tmp_path)]}
        return agents.make(f"files-claude-{next(_names)}", "claude", config=config), tmp_path / "rates.txt"

    def test_there_is_no_shell_so_touch_makes_nothing(self, agents, clerk):
        assert "No such tool available: Bash" in agents.ask(clerk[0], bash("touch here"))
        assert list(agents.folder(clerk[0]).glob("homes/*/here")) == []

    def test_its_folder_and_what_is_readable_are_its_own_business(self, agents, clerk):
        written = '[[tool Write {"file_path": "notes.md", "content": "one"}]] [[result]]'
        assert "File created" in agents.ask(clerk[0], written)
        assert "notes.md" in agents.ask(clerk[0], '[[tool Glob {"pattern": "*.md"}]] [[result]]')
        assert "8.1 percent" in agents.ask(clerk[0], f'[[tool Read {{"file_path": "{clerk[1]}"}}]] [[result]]')
        assert [each for each in agents.system.get("/api/approvals")[1] if each["agent"] == clerk[0]] == []

    def test_a_file_elsewhere_is_asked_for(self, agents, clerk):
        for count, (tool, more) in enumerate([("Write", ', "content": "one"'), ("Read", "")], start=1):
            message = agents.send(clerk[0], f'[[tool {tool} {{"file_path": "/tmp/out.md"{more}}}]] [[result]]')
            asked = until_asked(agents, clerk[0], count)
            assert asked["payload"]["tool"] == tool
            decide(agents, asked, approve=False)
            assert "An approver refused it" in agents.answer(message)


class TestCodex:
    def test_a_command_runs_once_it_is_allowed(self, agents, codex):
        message = agents.send(codex, '[[tool exec_command {"cmd": "touch here && ls here"}]] [[result]]')
        asked = until_asked(agents, codex)
        assert asked["payload"]["tool"] == "shell"
        assert "touch here && ls here" in asked["payload"]["arguments"]["command"]
        decide(agents, asked, approve=True)
        assert "here" in agents.answer(message)
        assert len(list(agents.folder(codex).glob("homes/*/here"))) == 1

    def test_a_command_inside_its_own_sandbox_is_not_asked_for_and_one_that_leaves_it_is(self, agents):
        bot = agents.make("sandboxed-codex", "codex", config={"tools": "files"})
        agents.ask(bot, '[[tool exec_command {"cmd": "touch here"}]] [[say done]]')
        assert len(list(agents.folder(bot).glob("homes/*/here"))) == 1
        leaves = '"cmd": "touch /tmp/x", "sandbox_permissions": "require_escalated", "justification": "x"'
        message = agents.send(bot, f"[[tool exec_command {{{leaves}}}]] [[say it was not done]]")
        decide(agents, until_asked(agents, bot), approve=False)
        assert agents.answer(message) == "it was not done"

    def test_a_command_that_is_refused_does_not_run_and_the_turn_goes_on(self, agents, codex):
        message = agents.send(
            codex, '[[tool exec_command {"cmd": "touch refused && echo made"}]] [[say it was not done]]'
        )
        decide(agents, until_asked(agents, codex), approve=False)
        assert agents.answer(message) == "it was not done"
        assert list(agents.folder(codex).glob("homes/*/refused")) == []
