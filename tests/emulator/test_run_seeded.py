"""``emulator run`` with an agents file, and the commands against the running emulator."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.emulator.harness import READY_LIMIT_S, Emulator, command, launch

pytestmark = [pytest.mark.e2e, pytest.mark.long]

Start = Callable[..., Emulator]
FILE = '[agents.front]\nname = "Front"\n[agents.coder]\n[teams.dev]\nagents = ["coder", "front"]\n'


def notes(running: Emulator) -> list[str]:
    return [line["note"] for line in running.lines if line["event"] == "emulator.note"]


def test_the_first_start_applies_the_file_and_the_next_reports_differences(emulator: Start, project: Path) -> None:
    file = project / "postroom.toml"
    file.write_text(FILE)
    (project / ".env").write_text("POSTROOM_TIMEZONE=Asia/Tokyo\nPOSTROOM_API_TOKEN=a-token-of-the-tests\n")
    first = emulator("--state", "elsewhere")
    assert "the first agents come from postroom.toml: front, coder, @dev" in notes(first)
    beside = command(project, "run", "--port", "0", "--state", "elsewhere")
    assert " status --state elsewhere " in beside.stderr, "what is printed to be typed is about this folder"

    listed = command(project, "agents", "list", "--state", "elsewhere")
    assert [line.split() for line in listed.stdout.splitlines()[1:]] == [
        ["coder", "coder", "echo", "1", "Asia/Tokyo"],
        ["front", "Front", "echo", "1", "Asia/Tokyo", "default"],
    ]
    nested = (sys.executable, "-m", "emulator", "agents", "list")
    assert command(project, "exec", "--state", "elsewhere", "--", *nested).stdout == listed.stdout
    assert first.stop() == 0

    file.write_text(FILE.replace('"Front"', '"Reception"'))
    second = emulator("--state", "elsewhere")
    (note,) = [note for note in notes(second) if "postroom.toml" in note]
    assert note.startswith("postroom.toml and the database differ in 1 place; the database is used: `")
    assert note.endswith(" diff --state elsewhere` shows how")
    differs = command(project, "diff", "--state", "elsewhere")
    assert differs.returncode == 1
    assert differs.stdout.splitlines()[1].split() == ["agents.front.name", "Reception", "Front"]
    assert command(project, "seed", "--apply", "--state", "elsewhere").returncode == 0
    assert command(project, "diff", "--state", "elsewhere").returncode == 0


def test_an_invalid_file_ends_a_first_start_with_a_sentence(project: Path) -> None:
    (project / "postroom.toml").write_text("[agents.front]\nproviderr = 'echo'\n")
    failed = launch(project)
    assert failed.process.wait(READY_LIMIT_S) == 78
    assert failed.said(
        "error: postroom.toml: [agents.front] providerr: there is no such setting; known: name, provider"
    )
    assert not failed.said("Traceback")
