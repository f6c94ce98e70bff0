"""How a person can type our command, here and now: after ``make run`` it is in ``.venv/bin`` only, on no PATH."""

import os
import shlex
import shutil
import sys
from pathlib import Path

_MODULE = "emulator.cli"


def typed(arguments: str = "") -> str:
    """The command line for *arguments*, in the words that work in this terminal."""
    return f"{_program()} {arguments}".strip()


def _program() -> str:
    script = Path(sys.argv[0])
    on_path = shutil.which("emulator")
    if script.name == "emulator" and script.is_file():
        if on_path is not None and script.samefile(on_path):
            return "emulator"
        return shlex.quote(_near(script))
    if on_path is not None and Path(on_path).parent == Path(sys.executable).parent:
        return "emulator"
    return f"python -m {_MODULE}"


def _near(path: Path) -> str:
    """From here, unless that is a way up and down again."""
    near = os.path.relpath(path)
    return str(path.absolute()) if near.startswith("..") else near
