"""What the targets of the Makefile start."""

import itertools
import shlex
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.any_python
ROOT = Path(__file__).parents[1]
VARIABLES = ("VENV", "STATE", "OUT", "MART", "REPORT", "AGENTS", "CLIENTS", "IMAGE")
NAMES = {name: f"my {name}" for name in VARIABLES}


@pytest.mark.parametrize(
    ("target", "used"),
    [
        ("run", ["my VENV/bin/emulator"]),
        ("test", ["my VENV/bin/ruff", "my VENV/bin/python"]),
        ("coverage", ["my VENV/bin/python"]),
        ("agents", ["my VENV/bin/python", "my AGENTS"]),
        ("clients", ["my VENV/bin/python", "my CLIENTS"]),
        ("image", ["my VENV/bin/python", "my IMAGE"]),
        ("analyse", ["my VENV/bin/python", "my STATE", "my OUT"]),
        ("report", ["my VENV/bin/python", "my STATE", "my MART", "my REPORT"]),
        ("clean", ["my VENV"]),
    ],
)
def test_a_folder_may_have_a_space_in_its_name(target: str, used: list[str]) -> None:
    command = ["make", "--no-print-directory", "-n", target, *(f"{name}={value}" for name, value in NAMES.items())]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    words = shlex.split(printed)
    scripts = [script for option, script in itertools.pairwise(words) if option == "-c"]
    words += [word for script in scripts for word in shlex.split(script)]
    assert [value for value in used if value not in words] == []
    assert "my" not in words
