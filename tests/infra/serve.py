"""``python -m tests.infra.serve NAME FD TIMEOUT_MS``: the runner, pointed at the tests' own functions."""

import socket
import sys

from infra.runner import serve

if __name__ == "__main__":
    _, name, fd, timeout_ms = sys.argv
    sock = socket.socket(fileno=int(fd))
    sys.exit(serve.serve(name, sock=sock, timeout_ms=int(timeout_ms), package="tests.infra.samples"))
