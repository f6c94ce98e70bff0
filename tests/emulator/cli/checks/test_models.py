"""The doctor's checks of agents' programs, keys and logins."""

import pytest

from emulator.cli.checks import models
from emulator.cli.checks.finding import Finding
from emulator.cli.checks.installation import StoredAgent
from shared.turns.gateway.upstreams import GatewaySettings

NOW = 1_800_000_000_000


@pytest.fixture
def claude(tmp_path, monkeypatch):
    """Installs a program called claude of this version, and nothing else."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))

    def install(version):
        (tmp_path / "claude").write_text(f"#!/bin/sh\necho '{version}'\n")
        (tmp_path / "claude").chmod(0o755)

    return install


def found(settings, *agents):
    return {(each.level, each.says) for each in models.findings(settings, agents, now_ms=NOW)}


def test_a_program_with_a_key_can_work(claude):
    claude("2.1.330")
    says = found(GatewaySettings(anthropic_api_key="sk-key"))
    assert ("ok", "claude 2.1.330 can work, and `auto` may choose it") in says


def test_another_version_is_a_warning(claude):
    claude("2.2.0")
    [warning] = [says for level, says in found(GatewaySettings(anthropic_api_key="sk-key")) if level == "warning"]
    assert "claude 2.2.0 is newer than 2.1.330" in warning


def test_a_program_that_is_missing_is_no_problem_where_no_agent_uses_it(claude):
    assert {level for level, _ in found(GatewaySettings())} == {"ok"}


def test_an_agent_without_a_key_is_a_problem(claude):
    claude("2.1.330")
    says = found(GatewaySettings(), StoredAgent("bot", "claude", {}))
    assert ("problem", "bot: no key for 'anthropic' is set: docs/agents/money.md names the variables") in says


def test_a_login_that_has_ended_is_a_problem(claude):
    claude("2.1.330")
    settings = GatewaySettings(claude_code_oauth_token="sk-ant-oat01-x", claude_code_oauth_ends="2027-01-14")
    [problem] = [says for level, says in found(settings, StoredAgent("bot", "claude", {})) if level == "problem"]
    assert "the login of the Claude plan ended on 2027-01-14" in problem


def test_a_key_in_a_file_counts_and_a_wrong_value_is_a_problem():
    loaded = models.load({"POSTROOM_ANTHROPIC_API_KEY": "sk-key"})
    assert isinstance(loaded, GatewaySettings)
    assert loaded.anthropic_api_key is not None
    wrong = models.load({"POSTROOM_ANTHROPIC_BASE_URL": "nonsense"})
    assert isinstance(wrong, Finding)
    assert "POSTROOM_ANTHROPIC_BASE_URL" in wrong.says
