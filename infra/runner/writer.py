"""Another writer process for a function whose first one ended: ``python -m infra.runner.writer NAME PARENT``.

The runner forks the first one. Later the function has threads and an open database, and can't be forked; so this one
begins anew. Its standard input is the socket to the function, whose name and process id it is told.
"""

import os
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial

from infra.processes import die_with_parent, name_process
from shared.core import logs
from shared.db.engine.writer_process import child

PROGRAM = ("infra.runner.writer",)


def begin(name: str, parent: int) -> None:
    """End with the function, also where this process is stopped and so reads no end of its socket."""
    die_with_parent(parent)
    name_process(f"{name}-writer")


def spawn(name: str, sock: socket.socket, *, program: Sequence[str] = PROGRAM) -> int:
    """Start one with *sock*; its process id. *program*: the module and its first arguments."""
    argv = (sys.executable, "-m", *program, name, str(os.getpid()))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return os.posix_spawn(sys.executable, argv, environment, file_actions=[(os.POSIX_SPAWN_DUP2, sock.fileno(), 0)])


def _main(name: str, parent: int) -> None:
    for number in child.STOPS:
        signal.signal(number, signal.SIG_IGN)
    logs.configure(name)
    child.become(socket.socket(fileno=os.dup(0)), partial(begin, name, parent), ())


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
