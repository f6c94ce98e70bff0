"""Which providers can work on a machine, and what ``auto`` takes."""

import pytest

from shared.turns.gateway import readiness
from shared.turns.gateway.upstreams import GatewaySettings

NOW = 1_800_000_000_000  # 2027-01-15


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without any program; the fixture installs one."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))

    def install(name, version="2.1.330"):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho '{version}'\n")
        path.chmod(0o755)

    return install


def models(**more):
    return GatewaySettings(**more)


class TestLook:
    def test_a_program_that_is_missing_is_the_reason(self, machine):
        found = readiness.look("claude", models(anthropic_api_key="sk-key"), now_ms=NOW)
        assert "npm install -g @anthropic-ai/claude-code" in found.why_not

    def test_a_key_that_is_missing_is_the_reason(self, machine):
        machine("claude")
        assert "no key for 'anthropic'" in readiness.look("claude", models(), now_ms=NOW).why_not

    def test_a_login_is_judged_by_its_last_day(self, machine):
        machine("claude")
        whys = [
            readiness.look(
                "claude", models(claude_code_oauth_token="sk-ant-oat01-x", claude_code_oauth_ends=day), now_ms=NOW
            ).why_not
            for day in ("2027-01-14", "2027-01-15")
        ]
        assert "ended on 2027-01-14: run `claude setup-token`" in whys[0]
        assert whys[1] is None

    def test_a_key_does_not_end_with_a_login(self, machine):
        machine("claude")
        settings = models(anthropic_api_key="sk-key", claude_code_oauth_ends="2020-01-01")
        assert readiness.look("claude", settings, now_ms=NOW).why_not is None

    def test_a_provider_without_a_program_needs_none(self):
        assert readiness.look("echo", models(), now_ms=NOW).why_not is None


class TestChoose:
    def test_the_first_that_can_work_is_chosen(self, machine):
        machine("claude")
        machine("codex", "0.169.0")
        assert readiness.choose(models(anthropic_api_key="k", openai_api_key="k"), now_ms=NOW).provider == "claude"
        assert readiness.choose(models(openai_api_key="k"), now_ms=NOW).provider == "codex"

    def test_where_nothing_can_work_it_is_echo_and_each_has_its_reason(self, machine):
        found = readiness.choose(models(), now_ms=NOW)
        assert found.provider == "echo"
        assert "claude: " in found.why_not
        assert "codex: " in found.why_not


def test_a_provider_that_wants_the_name_of_a_model_is_not_chosen(machine):
    machine("opencode", "1.18.33")
    local = models(local_models_url="http://127.0.0.1:11434/v1")
    assert readiness.look("opencode", local, now_ms=NOW).why_not is None
    assert readiness.choose(local, now_ms=NOW).provider == readiness.NOTHING
