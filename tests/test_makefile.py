"""What the targets of the Makefile start."""

import itertools
import shlex
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.any_python
ROOT = Path(__file__).parents[1]
NAMES = {"STATE": "my state", "OUT": "my volume", "MART": "my mart", "REPORT": "my report.html"}


@pytest.mark.parametrize(
    ("target", "used"), [("analyse", ["my state", "my volume"]), ("report", ["my state", "my mart", "my report.html"])]
)
def test_a_folder_may_have_a_space_in_its_name(target: str, used: list[str]) -> None:
    command = ["make", "--no-print-directory", "-n", target, *(f"{name}={value}" for name, value in NAMES.items())]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    words = shlex.split(printed)
    scripts = [script for option, script in itertools.pairwise(words) if option == "-c"]
    words += [word for script in scripts for word in shlex.split(script)]
    assert [value for value in used if value not in words] == []
    assert not {"my", "state", "volume", "mart", "report.html"} & set(words)
