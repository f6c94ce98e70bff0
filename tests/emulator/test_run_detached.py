"""An emulator in the background, from its start to its end, by the commands that a script uses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator.cli.app import app
from tests.emulator.harness import command, copy_project, wait_gone

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose emulator runs in the background."""
    project = copy_project(tmp_path_factory.mktemp("detached") / "project")
    started = command(project, "run", "--detach", "--port", "0")
    assert started.returncode == 0, started.stderr
    assert "is ready in the background" in started.stdout
    yield project
    command(project, "stop")


def run(project: Path, *arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*arguments, "--state", str(project / ".emulator"), "--json"])
    assert done.exit_code == code, done.stderr
    return json.loads(done.stdout)


def fail(project: Path, *arguments: str, code: int) -> str:
    """What the command says on stderr."""
    done = CliRunner().invoke(app, [*arguments, "--state", str(project / ".emulator")])
    assert done.exit_code == code, done.stderr
    return done.stderr


def test_a_second_one_is_refused(project: Path) -> None:
    second = command(project, "run", "--detach", "--port", "0")
    assert (second.returncode, "is in use by emulator[" in second.stderr) == (73, True)


def test_a_script_waits_for_rows(project: Path) -> None:
    assert run(project, "wait")["condition"] == "ready"
    assert run(project, "wait", "idle")["condition"] == "idle"
    assert run(project, "wait", "SELECT count(*) > 0 FROM agents")["seconds"] < 60
    assert "was not true within 0.2 s" in fail(
        project, "wait", "SELECT count(*) = 7 FROM messages", "--timeout", "0.2", code=75
    )
    assert "no such column: nope" in fail(project, "wait", "SELECT nope", code=65)


def test_a_tick_is_sent_now_and_shows_what_it_did(project: Path) -> None:
    assert {each["function"] for each in run(project, "cron", "list")} == {"dispatch", "deliver", "sweep", "recurrence"}
    done = run(project, "cron", "run", "sweep")
    assert (done["status"], "failed" in json.loads(done["body"])) == (200, True)
    assert "these have one: dispatch" in fail(project, "cron", "run", "api", code=66)
    assert run(project, "cron", "next") == []


def test_one_function_is_called_past_the_gateway(project: Path, tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"agentId": "assistant", "message": "look", "channel": "api", "sender": "Ana"}))
    stored = run(project, "invoke", "api", "--path", "/api/message", "--data", f"@{body}")
    assert (stored["status"] // 100, stored["newRows"]["messages"]) == (2, 1)
    assert run(project, "wait", "idle")["condition"] == "idle", "the answer waits for a client that fetches it"
    refused = run(project, "invoke", "ingest", "--path", "/webhooks/telegram", "--data", "{}", code=1)
    assert refused["status"] == 401
    assert any(line["event"] == "ingest.refused" for line in refused["log"])


def test_a_platform_refuses_on_order_and_a_process_dies(project: Path) -> None:
    added = run(project, "fault", "add", "telegram", "status", "--status", "429", "--every", "2", "--for", "1h")
    assert [each["sentence"] for each in run(project, "fault", "list")] == [added["sentence"]]
    assert run(project, "fault", "lift")["lifted"] == 1
    pid = run(project, "fault", "kill", "sweep")["pid"]
    wait_gone([pid])
    assert run(project, "fault", "hang", "recurrence", "--for", "1ms")["ms"] == 1
    assert "these run: ingest" in fail(project, "fault", "kill", "nobody", code=66)


def test_stop_waits_for_the_end_and_may_be_repeated(project: Path) -> None:
    pid = run(project, "stop")["stopped"]
    assert isinstance(pid, int)
    wait_gone([pid])
    assert not (project / ".emulator" / "instance.json").exists()
    assert run(project, "stop") == {"stopped": None}
