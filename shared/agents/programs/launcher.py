"""Stands between dispatch and a program where the shell of ``containment`` is not enough.

Run by ``python3 -I -S`` with the standard library alone, as one of::

    launcher.py forward PORT SOCKET PROGRAM …     the first process of a PID namespace, also carries connections of
                                                  127.0.0.1:PORT to the Unix socket
    launcher.py supervise FOLDER PROGRAM …        on a host without namespaces

File descriptor 3 is a socket whose other end only dispatch holds. The exit code of the program is written there as a
line. When it ends (dispatch closed it, or was killed), everything that the program started ends too: the kernel ends a
namespace with its first process; a supervisor adopts orphans, and kills its children until none is left.
"""

import _socket  # socket imports enum and selectors, which take longer than all the rest
import _thread
import os
import select
import sys

_DISPATCH = 3
_CHUNK = 65536
_BACKLOG = 64
_STACK = 256 * 1024
_PR_SET_CHILD_SUBREAPER = 36
_SIGKILL = 9
_READABLE, _GONE = select.POLLIN, select.POLLHUP | select.POLLERR


def main(arguments: list[str]) -> None:
    """Run until dispatch closes its end."""
    mode, *rest = arguments
    if mode == "forward":
        _run_first(int(rest[0]), rest[1], rest[2:])
    else:
        _supervise(rest[0], rest[1:])
    os._exit(0)  # at once: threads may be at work


def _run_first(port: int, path: str, command: list[str]) -> None:
    listener = _listen(port)  # before the program starts
    program = _start(command)
    _thread.stack_size(_STACK)
    _thread.start_new_thread(_accept, (listener, path))
    _attend(program)


def _supervise(folder: str, command: list[str]) -> None:
    _adopt_orphans()
    os.chdir(folder)
    _attend(_start(command))
    kill_children()


def _start(command: list[str]) -> int:
    program = os.fork()
    if program == 0:
        _become(command)
    _leave_pipes()
    return program


def _become(command: list[str]) -> None:
    os.close(_DISPATCH)
    try:
        os.execvp(command[0], command)  # noqa: S606 - this is how a program starts without a shell
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _leave_pipes() -> None:
    """Hold none of the program's pipes: its reader waits for their end."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)


def _attend(program: int) -> None:
    """Reap and report, until dispatch closes its end."""
    poll = select.poll()
    poll.register(_DISPATCH, _READABLE)
    ended = os.pidfd_open(program)
    poll.register(ended, _READABLE)
    while True:
        for fd, event in poll.poll(1000):
            if fd == _DISPATCH:
                if event & _GONE or not os.read(_DISPATCH, _CHUNK):
                    return
            elif fd == ended:
                poll.unregister(ended)
                _report(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]))
                program = 0
        _reap(besides=program)


def _report(code: int) -> None:
    try:
        os.write(_DISPATCH, f"{code if code >= 0 else 128 - code}\n".encode())
    except OSError:  # dispatch is gone, as the next poll tells
        return


def _reap(besides: int) -> None:
    """Collect orphans that ended; the program itself is collected where its code is reported."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid == besides:
            return
        os.waitpid(found.si_pid, 0)


def _adopt_orphans() -> None:
    import ctypes  # slow to import, and needed only here

    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_children() -> None:
    """Kill until no child is left; the children of a killed child become ours."""
    while True:
        for task in os.listdir("/proc/self/task"):  # noqa: PTH208 - pathlib is slow to import
            with open(f"/proc/self/task/{task}/children") as children:  # noqa: PTH123
                for child in children.read().split():
                    os.kill(int(child), _SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


# -- the way to the gateway


def _listen(port: int) -> _socket.socket:
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(_BACKLOG)
    return listener


def _accept(listener: _socket.socket, path: str) -> None:
    """Carry each connection in two threads: a slow one delays neither the others nor the watch on dispatch."""
    while True:
        fd, _ = listener._accept()  # type: ignore[attr-defined]
        inside = _socket.socket(fileno=fd)
        outside = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            outside.connect(path)
        except OSError:
            inside.close()
            continue
        _thread.start_new_thread(_carry, (inside, outside))
        _thread.start_new_thread(_carry, (outside, inside))


def _carry(source: _socket.socket, target: _socket.socket) -> None:
    """Carry one direction to its end; a connection that breaks ends in both directions."""
    how = _socket.SHUT_WR
    try:
        while data := source.recv(_CHUNK):
            target.sendall(data)
    except OSError:
        how = _socket.SHUT_RDWR
    try:
        target.shutdown(how)
    except OSError:  # it has ended before
        return


if __name__ == "__main__":
    main(sys.argv[1:])
