"""Another of our programs on the emulator's clock: ``python -m emulator.processes.on_clock FILE MODULE ARGUMENT …``."""

import runpy
import sys
from pathlib import Path

from emulator.base.clock_page import ClockPage


def program(page: Path) -> tuple[str, ...]:
    """The module and the first argument: before those of the other program."""
    return ("emulator.processes.on_clock", str(page))


if __name__ == "__main__":
    ClockPage(Path(sys.argv[1])).follow()
    module = sys.argv[2]
    sys.argv[:] = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
