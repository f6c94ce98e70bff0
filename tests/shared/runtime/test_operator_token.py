"""The token of a file that only this user can read."""

import os
import stat
from pathlib import Path

import pytest

from shared.runtime import operator_token
from tests.forks import FORKS, run_crew


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "data" / "postroom.db"


def test_the_first_start_makes_it_and_every_later_one_reads_it(database: Path) -> None:
    old = os.umask(0)
    try:
        token = operator_token.read_or_make(database)
    finally:
        os.umask(old)
    path = operator_token.path_of(database)
    assert token is not None
    assert len(token) >= 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["postroom.db-api-token"]
    assert operator_token.read_or_make(database) == token


def test_two_databases_have_two_tokens(tmp_path: Path) -> None:
    assert operator_token.read_or_make(tmp_path / "a.db") != operator_token.read_or_make(tmp_path / "b.db")


def test_processes_that_start_at_once_have_one_token(database: Path) -> None:
    answers = FORKS.SimpleQueue()
    assert run_crew([FORKS.Process(target=_read, args=(database, answers)) for _ in range(4)]) == [0] * 4
    assert len({answers.get() for _ in range(4)}) == 1
    assert len(list(database.parent.iterdir())) == 1


def _read(database: Path, answers: object) -> None:
    answers.put(operator_token.read_or_make(database))  # type: ignore[attr-defined]


UNSAFE = {
    "others can read it": lambda path: (path.write_text("known\n"), path.chmod(0o604)),
    "its group can write it": lambda path: (path.write_text("known\n"), path.chmod(0o620)),
    "it is a link": lambda path: path.symlink_to(path.with_name("elsewhere")),
    "it is a pipe": lambda path: os.mkfifo(path, 0o600),
    "it is empty": lambda path: path.touch(0o600),
}


@pytest.mark.parametrize("prepare", UNSAFE.values(), ids=UNSAFE)
def test_a_file_that_another_user_may_know_opens_nothing(database: Path, prepare: object) -> None:
    database.parent.mkdir()
    database.with_name("elsewhere").write_text("known\n")
    database.with_name("elsewhere").chmod(0o600)
    prepare(operator_token.path_of(database))  # type: ignore[operator]
    assert operator_token.read_or_make(database) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_opens_nothing(database: Path) -> None:
    operator_token.read_or_make(database)
    os.chown(operator_token.path_of(database), 65534, 65534)
    assert operator_token.read_or_make(database) is None
