"""Command lines and paths in messages, in the form that works in this terminal.

``emulator`` may be on no PATH: it may exist as ``.venv/bin/emulator`` only.
"""

import os
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path

STATE = Path(".emulator")  # the default of --state
_MODULE = "emulator"


def command_line(arguments: str = "", state: Path | None = None) -> str:
    """The command line for *arguments*, as it works in this terminal.

    Args:
        state: the state folder; the command line names it unless it is the default.
    """
    is_default = state is None or state.resolve() == STATE.resolve()
    named = "" if state is None or is_default else f" --state {shlex.quote(_near(state))}"
    return f"{_program()} {arguments}".strip() + named


def _program() -> str:
    script = Path(sys.argv[0])
    if script.name != "emulator":  # run as a module, as by --detach: the script beside Python is the same program
        script = Path(sys.executable).with_name("emulator")
    if not script.is_file():
        return f"python -m {_MODULE}"
    on_path = shutil.which("emulator")
    if on_path is not None and script.samefile(on_path):
        return "emulator"
    return shlex.quote(_near(script))


def _near(path: Path) -> str:
    """The path from here if it is below; else the absolute path."""
    near = os.path.relpath(path)
    return str(path.absolute()) if near.startswith("..") else near


def relative(path: Path, base: Path | None = None) -> str:
    """*path* relative to *base* (by default the current folder), if it is below."""
    with suppress(ValueError):
        return str(path.relative_to(base or Path.cwd()))
    return str(path)
