"""The fixture for whoever extends Postroom: the example of its page runs as it stands there."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.emulator.harness import ROOT, clean_environment, copy_project

NAME = "emulator.pytest_plugin"


def test_the_plugin_is_an_entry_point_of_its_own_name() -> None:
    """So ``-p`` and ``-p no:`` mean the plugin that an installation brings."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert points == {NAME: NAME}


def test_it_costs_a_project_that_does_not_use_it_next_to_nothing() -> None:
    code = f"import sys, pytest; before = set(sys.modules); import {NAME}; print(*sorted(set(sys.modules) - before))"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["emulator", NAME]


@pytest.mark.e2e
def test_the_example_of_the_page_passes_as_it_stands_there(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "testing.md").read_text(), re.DOTALL)
    project = copy_project(tmp_path / "project")
    (project / "tests").mkdir()
    (project / "tests" / "test_example.py").write_text(example)
    (project / "pytest.ini").write_text("[pytest]\naddopts = -p emulator.pytest_plugin\nemulator_scope = session\n")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=project,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert re.search(r"^3 passed in ", done.stdout, re.MULTILINE), done.stdout + done.stderr
