"""Starts a fork server. ``emulator run`` does so before it imports anything else: the server's imports take longest."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple

# By default glibc gives each thread a heap of its own. S3 has a thread for each connection, and a function a few.
ONE_HEAP = {"MALLOC_ARENA_MAX": "1"}


class Started(NamedTuple):
    """A fork server's process, what it prints, our end of the socket to it, and the Unix time of its start.

    Later saves are not in the code that it loads. It ends with this process and with the socket.
    """

    process: "subprocess.Popen[bytes]"
    output: IO[bytes]
    channel: socket.socket
    at_s: float


def start_fork_server(environment: Mapping[str, str], project: Path | None = None) -> Started:
    """Start it in a process group of its own; its stdout and stderr go to one pipe.

    Args:
        project: where the code is that it loads; None is the working directory.
    """
    at_s = time.time()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    read, write = os.pipe()
    with theirs, os.fdopen(write):
        process = subprocess.Popen(
            [sys.executable, "-m", "emulator.processes.fork_server", str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=subprocess.STDOUT,
            env={**environment, **ONE_HEAP},
            pass_fds=[theirs.fileno()],
            cwd=project,
            process_group=0,
        )
    return Started(process, os.fdopen(read, "rb", buffering=0), ours, at_s)
