"""``emulator logs`` over a real log file."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulator.cli.app import app
from emulator.cli.commands.running import logs


def line(second: int, event: str, level: str = "info", **more: str) -> dict[str, str]:
    return {"event": event, "level": level, "timestamp": f"2026-03-01T12:00:0{second}.000Z", **more}


LINES = (
    line(0, "emulator.ready"),
    line(1, "ingest.stored", function="ingest", of="telegram_a1"),
    line(2, "turn.failed", "error", function="dispatch", message_id="telegram_a1"),
    line(3, "turn.done", function="dispatch", message_id="telegram_b2"),
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with a log of two files, the older one first."""
    (tmp_path / "logs").mkdir()
    older, newer = (tmp_path / "logs" / name for name in ("emulator.log.1", "emulator.log"))
    older.write_text(json.dumps(LINES[0]) + "\n")
    newer.write_text("".join(json.dumps(each) + "\n" for each in LINES[1:]))
    return tmp_path


def events(state: Path, *arguments: str) -> list[str]:
    done = CliRunner().invoke(app, ["logs", "--state", str(state), "--json", *arguments])
    assert done.exit_code == 0, done.stderr
    return [json.loads(line)["event"] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ["emulator.ready", "ingest.stored", "turn.failed", "turn.done"]),
        (("dispatch",), ["turn.failed", "turn.done"]),
        (("emulator", "ingest"), ["emulator.ready", "ingest.stored"]),
        (("--level", "warning"), ["turn.failed"]),
        (("--message", "telegram_a1"), ["ingest.stored", "turn.failed"]),
        (("--grep", r"turn\.d"), ["turn.done"]),
        (("--limit", "1"), ["turn.done"]),
        (("--since", "1h"), []),
    ],
)
def test_lines_are_chosen_by_function_level_message_pattern_and_time(
    state: Path, arguments: tuple[str, ...], expected: list[str]
) -> None:
    assert events(state, *arguments) == expected


def test_a_person_gets_the_form_of_the_terminal(state: Path) -> None:
    done = CliRunner().invoke(app, ["logs", "dispatch", "--state", str(state), "--level", "error"])

    assert done.stdout.split()[1:] == ["dispatch", "turn.failed", "message_id=telegram_a1"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("--grep", "("), "is no regular expression"), (("--since", "soon"), "is not a duration")],
)
def test_a_value_that_cannot_be_used_is_named(state: Path, arguments: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(app, ["logs", "--state", str(state), *arguments])

    assert (done.exit_code, says in done.stderr) == (65, True), done.stderr


def test_without_a_log_the_command_says_how_to_get_one(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["logs", "--state", str(tmp_path / "none")])

    assert done.exit_code == 66
    assert "there is no log in" in done.stderr


def test_following_goes_on_in_the_next_file(state: Path) -> None:
    """A full file is renamed; the follower reads what stands in it to the end, then the new one."""
    file = state / "logs" / "emulator.log"
    with file.open() as opened:
        opened.read()
        new: Iterator[str] = (facts["event"] for _, facts in logs._new(file, opened))
        with file.open("a") as log:
            log.write('{"event": "one"}\n{"event": "tw')
        first = next(new)
        with file.open("a") as log:
            log.write('o"}\n')
        file.rename(state / "logs" / "emulator.log.1")
        file.write_text('{"event": "three"}\n')

        assert [first, *islice(new, 2)] == ["one", "two", "three"]
