"""How codex is started."""

import asyncio
import tomllib

import pytest

from shared.agents.base import Failed
from shared.agents.providers.codex import launch
from shared.core.errors import ConfigInvalid
from tests.shared.agents.providers.a_turn import make_turn
from tests.shared.agents.providers.claude.claude_program import OpenDoors

THREAD = "01a20476-aa0e-7481-be9c-37726e8f5e7a"


@pytest.fixture
def program(tmp_path):
    """A program that has a version, and no app-server."""
    path = tmp_path / "codex"
    path.write_text('#!/bin/sh\n[ "$1" = --version ] && echo codex-cli 0.169.0\n')
    path.chmod(0o755)
    return path


def prepare(tmp_path, program, config=None, **more):
    (tmp_path / "agent").mkdir(exist_ok=True)
    config = {"program": str(program), "mode": "app-server", **(config or {})}
    turn = make_turn(folder=tmp_path / "agent", leash="off", doors=OpenDoors(), config=config, **more)
    return asyncio.run(launch.prepare(turn))


def test_neither_the_words_nor_the_environment_nor_a_file_hold_the_token(tmp_path, program, monkeypatch):
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "a-secret")
    start = prepare(tmp_path, program)
    home = start.command.session_folder / "codex"
    told = [*start.command.words, *start.command.environment.values(), (home / "config.toml").read_text()]
    assert not any("postroom-token" in each or "a-secret" in each for each in told)
    assert start.thread["config"]["mcp_servers"]["postroom"]["url"] == "http://127.0.0.1:1/mcp"
    assert start.command.environment["CODEX_HOME"] == str(home)


def test_exec_gets_its_settings_by_a_file_of_the_session_that_only_we_may_read(tmp_path, program):
    start = prepare(tmp_path, program, {"mode": "exec"}, continuation=THREAD)
    file = start.command.session_folder / "codex" / f"{start.profile}.config.toml"
    assert tomllib.loads(file.read_text())["model_providers"]["postroom"]["http_headers"]
    assert file.stat().st_mode & 0o077 == 0
    assert start.command.words[1:] == [
        *("exec", "--json", "--skip-git-repo-check", "--profile", start.profile, "resume", THREAD, "-")
    ]


def test_the_text_of_people_is_in_no_word(tmp_path, program):
    start = prepare(tmp_path, program, {"mode": "exec"}, prompt="--help")
    assert "--help" not in start.command.words


def test_a_version_without_an_app_server_is_run_by_exec(tmp_path, program):
    program.write_text('#!/bin/sh\n[ "$1" = --version ] && echo codex-cli 0.10.0 && exit 0\nexit 2\n')
    assert prepare(tmp_path, program, {"mode": "auto"}).command.words[1] == "exec"


def test_tools_of_its_own_need_a_leash(tmp_path, program):
    with pytest.raises(ConfigInvalid, match="'tools': 'files' is for programs on a leash only"):
        prepare(tmp_path, program, {"tools": "files"})


def test_a_program_that_is_missing_pauses_and_does_not_retry(tmp_path):
    failed = prepare(tmp_path, tmp_path / "none")
    assert isinstance(failed, Failed)
    assert (failed.code, failed.retryable) == ("not_installed", False)


def test_a_link_of_the_program_leads_us_nowhere(tmp_path, program):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "sessions").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigInvalid, match="is a link"):
        prepare(tmp_path, program)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(("given", "thread"), [(THREAD, THREAD), (None, None), ("of-echo", None), ("--last", None)])
def test_a_continuation_of_another_provider_is_a_fresh_start(given, thread):
    assert launch.continues(given) == thread
