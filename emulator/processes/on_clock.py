"""Another of our programs on the emulator's clock: ``python -m emulator.processes.on_clock FILE MODULE ARGUMENT …``.

Its disk fails as those of the functions do: it may be a writer process that takes another one's place.
"""

import os
import runpy
import sys
from pathlib import Path

from emulator.base.clock_page import ClockPage


def program(page: Path) -> tuple[str, ...]:
    """The module and the first argument: before those of the other program."""
    return ("emulator.processes.on_clock", str(page))


if __name__ == "__main__":
    from emulator.processes import disk_faults

    ClockPage(Path(sys.argv[1])).follow()
    if "POSTROOM_RUN_DIR" in os.environ:
        disk_faults.install(Path(os.environ["POSTROOM_RUN_DIR"]))
    module = sys.argv[2]
    sys.argv[:] = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
