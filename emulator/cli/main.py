"""The console script.

typer and pydantic read the command line, and would keep 8 MB of an emulator for as long as it runs. So a process of its
own reads the options of ``emulator run`` and ends, and meanwhile this one imports what a start needs. Without options
there is nothing to read.
"""

import gc
import os
import pickle
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from emulator.base.shell import of_shell
from emulator.processes.start import start_fork_server

if TYPE_CHECKING:
    from emulator.cli.run import RunRequest


def main() -> None:
    """Carry out the command line, and end this process with the exit code."""
    if sys.argv[1:2] != ["run"]:
        _read_command_line()
    gc.disable()  # imports make many objects and no garbage; the supervisor enables it again
    fork_server = start_fork_server(of_shell(os.environ))
    from emulator.cli import run  # slow, see emulator.processes.start

    if len(sys.argv) == 2:
        run.run_emulator(run.without_options, fork_server)
    ours, theirs = os.pipe()
    reader = os.fork()
    if reader == 0:
        os.close(ours)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches both processes, and this one says nothing
        _read_command_line(on_run=partial(_hand_over, theirs))
    os.close(theirs)
    run.run_emulator(partial(_take_over, ours, reader), fork_server)


def _read_command_line(on_run: Callable[["RunRequest"], None] | None = None) -> NoReturn:
    from emulator.cli.app import app  # typer, see above

    app(obj=on_run)
    sys.exit()


def _hand_over(pipe: int, asked: "RunRequest") -> None:
    with open(pipe, "wb") as file:
        pickle.dump(asked, file)


def _take_over(pipe: int, reader: int) -> "RunRequest | int":
    """What the other process read, or its exit code where it is not to run."""
    with open(pipe, "rb") as file:
        told = file.read()
    _, status = os.waitpid(reader, 0)
    if told:
        asked: RunRequest = pickle.loads(told)  # noqa: S301 - of our own fork
        return asked
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code
