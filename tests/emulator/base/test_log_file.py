"""The log in the state folder is bounded, and no other user can read it."""

from pathlib import Path

import pytest

from emulator.base.log_file import OLDER_FILES, LogFile


def test_lines_are_appended_to_a_file_of_this_user_only(tmp_path: Path) -> None:
    path = tmp_path / "emulator.log"
    path.touch(mode=0o644)
    for number in range(2):
        log = LogFile(path)
        log.write(f"line {number} with 100 %s and \N{SNOWMAN}")
        log.close()
    assert path.read_text() == "line 0 with 100 %s and \N{SNOWMAN}\nline 1 with 100 %s and \N{SNOWMAN}\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_old_lines_are_deleted(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "emulator.log", largest_bytes=1000)
    for number in range(1000):
        log.write(f"line {number:03} {'x' * 90}")
    log.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 1 + OLDER_FILES
    assert all(path.stat().st_size <= 1000 and path.stat().st_mode & 0o777 == 0o600 for path in files)
    assert files[0].read_text().splitlines()[-1].startswith("line 999 ")


def test_a_line_that_cant_be_written_is_lost_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk must not end the emulator, and a traceback for each line would hide why."""
    folder = tmp_path / "logs"
    log = LogFile(folder / "emulator.log")
    log.write("lost")
    folder.mkdir()
    log.write("kept")
    log.close()
    assert (folder / "emulator.log").read_text() == "kept\n"
    assert capsys.readouterr() == ("", "")
