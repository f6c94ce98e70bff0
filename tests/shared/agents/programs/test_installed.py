"""Whether a program is on this machine, and in which version."""

import pytest

from shared.agents.programs import installed


def program(folder, said="2.1.330 (Claude Code)", code=0):
    path = folder / "claude"
    path.write_text(f"#!/bin/sh\necho '{said}'\nexit {code}\n")
    path.chmod(0o755)
    return path


def look(path):
    return installed.look("claude", "2.1.330", "npm install it", str(path))


@pytest.mark.parametrize(
    ("version", "remark"),
    [
        ("2.1.330", None),
        ("2.1.99", "claude 2.1.99 is older than 2.1.330, which this release of Postroom was tested with"),
        ("2.2.0", "claude 2.2.0 is newer than 2.1.330, which this release of Postroom was tested with"),
    ],
)
def test_a_version_that_is_not_the_tested_one_is_remarked(tmp_path, version, remark):
    found = look(program(tmp_path, f"{version} (Claude Code)"))
    assert (found.version, found.remark, found.why_not) == (version, remark, None)


def test_a_program_that_is_missing_says_what_installs_it(tmp_path):
    assert look(tmp_path / "claude").why_not.endswith("install it with `npm install it`")


def test_a_program_that_can_not_say_its_version_can_not_be_used(tmp_path):
    found = look(program(tmp_path, "broken", 1))
    assert found.version is None
    assert "failed (code 1, no version)" in found.why_not


def test_a_program_is_found_where_its_installer_puts_it(tmp_path, monkeypatch):
    (tmp_path / ".local/bin").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nothing")
    assert installed.find("claude-for-this-test") is None
    program(tmp_path / ".local/bin").rename(tmp_path / ".local/bin/claude-for-this-test")
    assert installed.find("claude-for-this-test") == tmp_path / ".local/bin/claude-for-this-test"


def test_a_newer_file_is_asked_again(tmp_path):
    assert look(program(tmp_path, "2.1.330")).version == "2.1.330"
    (tmp_path / "claude").unlink()
    assert look(program(tmp_path, "2.1.331")).version == "2.1.331"


def test_the_version_that_is_started_is_logged_once(tmp_path, capsys):
    found = look(program(tmp_path, "2.9.1"))
    assert "agent.program_found" not in capsys.readouterr().out
    installed.tell(found)
    installed.tell(found)
    assert capsys.readouterr().out.count("2.9.1 is newer than 2.1.330") == 1
