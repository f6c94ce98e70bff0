"""How a person can type our command, or a path, here and now: our command may be in ``.venv/bin`` only, on no PATH."""

import os
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path

STATE = Path(".emulator")  # the folder that is taken where none is named
_MODULE = "emulator"


def command_line(arguments: str = "", state: Path | None = None) -> str:
    """The command line for *arguments*, in the words that work in this terminal.

    Args:
        state: the folder that it is about; it is named, unless it is the one that is taken anyway.
    """
    is_taken_anyway = state is None or state.resolve() == STATE.resolve()
    named = "" if state is None or is_taken_anyway else f" --state {shlex.quote(_near(state))}"
    return f"{_program()} {arguments}".strip() + named


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


def relative(path: Path, base: Path | None = None) -> str:
    """*path* from where we are, or from *base*, if it is below."""
    with suppress(ValueError):
        return str(path.relative_to(base or Path.cwd()))
    return str(path)
