"""How opencode is started."""

import asyncio
import json

import pytest

from shared.agents.base import Failed
from shared.agents.providers.opencode import launch
from shared.core.errors import ConfigInvalid
from tests.shared.agents.providers.a_turn import make_turn
from tests.shared.agents.providers.claude.claude_program import OpenDoors


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "opencode"
    path.write_text("#!/bin/sh\necho 1.18.33\n")
    path.chmod(0o755)
    return path


def prepare(tmp_path, program, config=None, **more):
    (tmp_path / "agent").mkdir(exist_ok=True)
    config = {"program": str(program), **(config or {})}
    turn = make_turn(folder=tmp_path / "agent", leash="off", doors=OpenDoors(), config=config, **more)
    return asyncio.run(launch.prepare(turn))


def settings(start):
    return json.loads(start.command.environment["OPENCODE_CONFIG_CONTENT"])


def test_models_and_tools_are_ours_alone(tmp_path, program):
    found = settings(prepare(tmp_path, program))
    assert found["enabled_providers"] == list(found["provider"]) == list(found["mcp"]) == ["postroom"]
    assert found["permission"] == {"*": "deny", "postroom_*": "allow"}
    assert found["provider"]["postroom"]["options"]["apiKey"] == "postroom-token"


def test_nothing_of_ours_is_in_its_environment_and_no_text_of_people_in_its_words(tmp_path, program, monkeypatch):
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "a-secret")
    start = prepare(tmp_path, program, prompt="--help")
    assert "a-secret" not in str(start.command)
    assert "--help" not in start.command.words


def test_it_looks_for_nothing_in_the_internet(tmp_path, program):
    environment = prepare(tmp_path, program).command.environment
    assert all(
        environment[f"OPENCODE_DISABLE_{name}"] == "1" for name in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
    )


def test_the_session_goes_on_in_a_form_that_is_no_option(tmp_path, program):
    assert "--session=ses_1" in prepare(tmp_path, program, continuation="ses_1").command.words
    assert "--help" not in prepare(tmp_path, program, continuation="--help").command.words


def test_a_model_must_be_named(tmp_path, program):
    with pytest.raises(ConfigInvalid, match="opencode has no model of its own"):
        prepare(tmp_path, program, model=None)


def test_tools_of_its_own_need_a_leash(tmp_path, program):
    with pytest.raises(ConfigInvalid, match="'tools': 'all' is for programs on a leash only"):
        prepare(tmp_path, program, {"tools": "all"})


def test_a_program_that_is_missing_pauses_and_does_not_retry(tmp_path):
    failed = prepare(tmp_path, tmp_path / "none")
    assert isinstance(failed, Failed)
    assert (failed.code, failed.retryable) == ("not_installed", False)
