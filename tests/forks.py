"""Processes that start at once: forks of one process that has already imported what they run.

A fresh Python spends a second of processor time on imports; a fork of the standard library's fork server, hundredths.
"""

import contextlib
import fcntl
import io
import multiprocessing
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from shared.db.engine.connection import open_connection
from tests.liveness import is_alive, opened

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "pytest",
        "shared.rest.admin.retire",
        "shared.conversation.inbound.decisions",
        "shared.conversation.inbound.pairing",
        "shared.conversation.routing.router",
        "tests.approval_requests",
        "tests.support",
    ]
)
LIMIT_S = 180
HEAD = "import sys, pathlib\nfrom shared.db.engine.connection import open_connection, transaction\n"


def run_crew(crew: Sequence[BaseProcess]) -> list[int | None]:
    """Start all processes and wait for their ends; their exit codes."""
    for process in crew:
        process.start()
    for process in crew:
        process.join(LIMIT_S)
    return [process.exitcode for process in crew]


def outcomes(db: Path, work: Callable[..., object], arguments: Sequence[Sequence[Any]]) -> list[Any]:
    """What *work* returns in processes of their own, which all begin at one instant.

    Args:
        work: A function of a module; each process calls it with a connection to *db* and the arguments of one element.
    """
    begin, answers = FORKS.Barrier(len(arguments)), FORKS.SimpleQueue()
    crew = [FORKS.Process(target=_answer, args=(db, work, begin, answers, each)) for each in arguments]
    assert run_crew(crew) == [0] * len(crew)
    return [answers.get() for _ in crew]


def _answer(db: Path, work: Callable[..., object], begin: Any, answers: Any, arguments: Sequence[Any]) -> None:
    conn = open_connection(db)
    begin.wait(LIMIT_S)
    answers.put(work(conn, *arguments))
    conn.close()


def race(db: Path, script: str, arguments: Sequence[Sequence[object]]) -> list[str]:
    """The output of several processes that all wait at the write lock of *db* before it opens.

    Args:
        script: Python; it finds ``conn`` open, ``transaction`` imported, and its own arguments from ``sys.argv[2]`` on.
    """
    program = HEAD + "conn = open_connection(pathlib.Path(sys.argv[1]))\n" + script
    gate = Path(f"{db}-gate")
    with gate.open("w") as closed:
        fcntl.flock(closed, fcntl.LOCK_EX)
        running = [start(program, [str(db), *map(str, each)]) for each in arguments]
        deadline = time.monotonic() + LIMIT_S
        while not all(is_at(process.pid or 0, gate) for process, _ in running) and time.monotonic() < deadline:
            time.sleep(0.01)
    ended = [receive(process, said) for process, said in running]
    assert [(error, code) for _, error, code in ended] == [("", 0)] * len(ended)
    return [out.strip() for out, _, _ in ended]


def start(program: str, arguments: Sequence[str]) -> tuple[BaseProcess, Connection]:
    """A process that runs the Python text *program*, and where it says its output and its error."""
    hears, says = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_run, args=(program, ["-c", *arguments], says))
    process.start()
    says.close()
    return process, hears


def receive(process: BaseProcess, said: Connection) -> tuple[str, str, int | None]:
    """The output, the error and the exit code of a started process; one that was killed says nothing."""
    out, error = "", ""
    with contextlib.suppress(EOFError):
        out, error = said.recv()
    process.join(LIMIT_S)
    return out, error, process.exitcode


def _run(program: str, argv: list[str], says: Connection) -> None:
    sys.argv, out, error = argv, io.StringIO(), ""
    with contextlib.redirect_stdout(out):
        try:
            exec(program, {"__name__": "__main__"})  # noqa: S102 - the text of a test
        except BaseException:  # noqa: BLE001 - the test reads it
            error = traceback.format_exc()
    says.send((out.getvalue(), error))


def is_at(pid: int, gate: Path) -> bool:
    """Whether the process waits at the gate or has ended: it has read all that it reads before the lock."""
    with contextlib.suppress(OSError):
        if str(gate) in opened(pid).values():
            return True
    return not is_alive(pid)
