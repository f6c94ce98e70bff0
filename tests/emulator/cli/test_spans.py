"""How long a command waits, as people write it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulator.base.errors import ExitCode
from emulator.cli.app import app
from emulator.cli.spans import span_ms
from shared.core.time.durations import TooLong


@pytest.mark.parametrize(("given", "shown"), [("10ms", "0.01 s"), ("0.02", "0.02 s"), ("0", "0 s")])
def test_a_command_waits_for_a_span_of_time_or_a_number_of_seconds(tmp_path: Path, given: str, shown: str) -> None:
    done = CliRunner().invoke(app, ["wait", "--timeout", given, "--state", str(tmp_path / "state")])
    assert (done.exit_code, f"was ready within {shown};" in done.stderr) == (ExitCode.TRY_AGAIN, True), done.stderr


@pytest.mark.parametrize(
    ("given", "reason"),
    [("soon", "no span of time"), ("nan", "no span of time"), ("-1", "no span of time"), ("9999999h", "too long")],
)
@pytest.mark.parametrize("words", [("wait",), ("stop",), ("clock", "jump", "1d"), ("chat", "telegram")])
def test_any_other_timeout_is_refused(words: tuple[str, ...], given: str, reason: str) -> None:
    done = CliRunner().invoke(app, [*words, "--timeout", given])
    assert (done.exit_code, reason in " ".join(done.stderr.split())) == (ExitCode.UNKNOWN_WORD, True), done.stderr


def test_a_span_that_is_too_long_is_called_so(tmp_path: Path) -> None:
    assert span_ms("83333d") == 83_333 * 86_400_000
    with pytest.raises(TooLong, match="'83334d' is too long: the longest duration is 2000000h"):
        span_ms("83334d")
    done = CliRunner().invoke(app, ["clock", "jump", "99999999999s", "--state", str(tmp_path / "state")])
    assert (done.exit_code, "'99999999999s' is too long" in done.stderr) == (ExitCode.INVALID, True), done.stderr
    done = CliRunner().invoke(app, ["messages", "list", "--since", "99999999999s", "--url", "http://127.0.0.1:1"])
    assert "--since '99999999999s' is too long" in done.stderr
