"""What ``emulator doctor --security`` names."""

import json

from typer.testing import CliRunner

from emulator.cli.app import app
from emulator.cli.checks import gaps
from emulator.cli.checks.installation import StoredAgent
from shared.agents.programs import containment
from shared.core.settings import Settings


def levels(found):
    return [each.level for each in found]


def test_a_leash_that_may_be_missing_is_a_gap_and_one_that_is_required_is_none():
    assert levels(gaps.leash(Settings(leash="off"))) == ["warning"]
    assert "POSTROOM_LEASH=required" in list(gaps.leash(Settings(leash="auto")))[1].mend
    assert levels(gaps.leash(Settings(leash="required"))) == (
        ["ok"] if containment.available().is_leash else ["problem"]
    )


def test_root_is_a_gap():
    assert (gaps.user(0).level, gaps.user(1000).level) == ("warning", "ok")


def test_an_agent_for_anybody_is_a_gap_outside_the_emulator():
    assert gaps.new_chats(Settings(new_chats="wire"), is_of_emulator=False).level == "warning"
    assert gaps.new_chats(Settings(new_chats="wire"), is_of_emulator=True).level == "ok"
    assert gaps.new_chats(Settings(new_chats="ask"), is_of_emulator=False).level == "ok"


def test_tokens_that_other_users_can_read_are_a_gap(tmp_path):
    (tmp_path / ".env").write_text("")
    (tmp_path / ".env").chmod(0o644)
    assert [each.mend for each in gaps.env_files(tmp_path)] == ["chmod 600 .env"]
    (tmp_path / ".env").chmod(0o600)
    assert list(gaps.env_files(tmp_path)) == []


def test_a_shell_and_a_folder_that_each_session_writes_are_named_with_their_agent():
    agents = [
        StoredAgent("coder", "claude", {"tools": "all", "shared": "read"}),
        StoredAgent("helper", "command", {"command": ["x"]}),
        StoredAgent("echo", "echo", {"tools": "all"}),
    ]
    assert ["coder" in each.says for each in gaps.shells(agents)] == [True]
    assert ["helper" in each.says for each in gaps.shared_folders(agents)] == [True]


def test_the_command_names_gaps_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POSTROOM_DB", raising=False)
    monkeypatch.setenv("POSTROOM_LEASH", "off")
    shown = CliRunner().invoke(app, ["doctor", "--security", "--json"])
    subjects = {each["subject"] for each in json.loads(shown.stdout)["checks"]}
    assert shown.exit_code == 0, shown.stdout
    assert subjects >= {"leash", "user", "strangers", "token"}
    assert "java" not in subjects
