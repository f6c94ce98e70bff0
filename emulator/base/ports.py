"""Listening sockets: on the wanted port or, if another process has it, on the next free one."""

import contextlib
import errno
import os
import socket
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"
_TRIES = 20
_BACKLOG = 512
_LISTEN_STATE = "0A"  # include/net/tcp_states.h


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A bound and listening socket. ``instead_of``: the wanted port if it was in use, by ``holder``."""

    sock: socket.socket
    port: int
    instead_of: int | None = None
    holder: str | None = None


def listen(wanted: int = 0) -> ListeningSocket:
    """Listen on loopback on the port *wanted*, else on the next free port after it; 0 means any port."""
    for port in (*range(wanted, wanted + _TRIES), 0) if wanted else (0,):
        if port > 65535:
            continue
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((LOOPBACK, port))
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            continue
        sock.setblocking(False)
        got = sock.getsockname()[1]
        if wanted in (0, got):
            return ListeningSocket(sock, got)
        return ListeningSocket(sock, got, instead_of=wanted, holder=holder(wanted))
    raise OSError(errno.EADDRINUSE, "no free port on 127.0.0.1")


def holder(port: int) -> str | None:
    """The process that listens on *port*, such as ``node[41877]``; None if it belongs to another user."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for row in Path(table).read_text().splitlines()[1:]:
                fields = row.split()
                if fields[3] == _LISTEN_STATE and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    if not inodes:
        return None
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - paths as objects take ten times as long
        with contextlib.suppress(OSError):
            opened = f"/proc/{pid}/fd"
            if any(os.readlink(f"{opened}/{fd}") in inodes for fd in os.listdir(opened)):  # noqa: PTH115, PTH208
                return f"{_command(Path('/proc', pid))}[{pid}]"
    return None


def _command(folder: Path) -> str:
    """The program's name; of an interpreter, the script's name too."""
    words = (folder / "cmdline").read_bytes().split(b"\0")
    names = [Path(word.decode("utf-8", "replace")).name for word in words if word and not word.startswith(b"-")]
    if not names:
        return (folder / "comm").read_text().strip()
    return " ".join(names[:2]) if names[0].startswith(("python", "node", "ruby")) else names[0]
