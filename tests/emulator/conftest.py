"""A copy of the project, and emulators that end with the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.emulator.harness import Emulator, copy_project, launch


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A fresh copy of the project."""
    return copy_project(tmp_path / "project")


@pytest.fixture
def emulator(project: Path) -> Iterator[Callable[..., Emulator]]:
    """Starts emulators that end with the test, whatever happens in it."""
    started: list[Emulator] = []

    def start(*arguments: str, at: Path = project) -> Emulator:
        started.append(launch(at, *arguments))
        started[-1].wait_ready()
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait(60)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """One emulator for all tests of a file that do not change it."""
    started = launch(copy_project(tmp_path_factory.mktemp("shared") / "project"))
    try:
        started.wait_ready()
        yield started
    finally:
        started.stop()
