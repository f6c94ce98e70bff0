"""The fork server: loads our code and its libraries once, and forks a ready-made process for each function.

It loads the code that our functions import, as it is on disk at that moment. A function is a
fork of it and loads only its own file. When code changes that more than one function imports, a new fork server takes
its place. Hot reload is nothing more than that.

The fork server has no threads, because a fork copies only one. It is the parent of its forks, so only it sends them
signals and learns when they end.

The protocol is JSON over one socket (``SOCK_SEQPACKET``, which keeps messages apart), with file descriptors beside it:

========== ======================================================= =========================================
request    ``{"fork": id, "name", "entry", "options", "env"}``      fds: stdout, stderr, ready, *sockets*
           ``{"kill": id, "signal", "group"}``
event      ``{"loaded": ms}``, ``{"forked": id, "pid"}``,
           ``{"exited": id, "code"}`` (negative: a signal)
========== ======================================================= =========================================

``entry`` is ``module:function``, called as ``function(options, ready, sockets)`` in the child.
"""

import array
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from infra.processes import die_with_parent, kill_group, name_process

# structlog and uvicorn import these where they are installed, and no function uses them. Deployed functions lack both.
UNWANTED = ("rich", "watchfiles")
# What our functions import late and each start needs. Our own code comes first: it imports less of the libraries than
# they would import of themselves.
OF_EACH_START = (
    "infra.runner.serve",
    "emulator.processes.on_clock",
    "shared.roster.new_database",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
)
MAX_MESSAGE = 1 << 18  # bytes: room for several environments
MAX_FDS = 16


def main() -> int:
    """``python -m emulator.processes.fork_server FD PARENT``: this end of the socket, and the parent's process id."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the supervisor decides
    name_process("fork-server")
    started = time.monotonic()
    gc.disable()  # a collection takes time, and would copy the loaded pages in every child
    for name in UNWANTED:
        sys.modules[name] = None  # type: ignore[assignment]  # the import system's word for "there is none"
    load_functions()
    gc.freeze()
    _say_loaded(channel, started)
    return ForkServer(channel).run()


def _say_loaded(channel: socket.socket, started: float) -> None:
    with contextlib.suppress(ConnectionError):  # the supervisor ended: the next read of the channel ends this process
        channel.send(json.dumps({"loaded": round((time.monotonic() - started) * 1000)}).encode())


def load_functions() -> None:
    """Load what the functions import, and forget their own files. A function that can't be loaded reports why itself.

    Of what they import late, only what every start needs: the rest would cost each start and each process.
    """
    names = [found.name for found in pkgutil.iter_modules(importlib.import_module("functions").__path__, "functions.")]
    for name in (*OF_EACH_START, *names):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    with contextlib.suppress(Exception):
        _make_what_each_start_makes()
    for name in [name for name in sys.modules if name.partition(".")[0] == "functions"]:
        del sys.modules[name]


def _make_what_each_start_makes() -> None:
    """What a function would make once for itself, and then share with no other process: 1.4 MB."""
    from shared.channels import registry  # ours: an error of theirs stops nothing
    from shared.core.settings import Settings
    from shared.db.engine import schema

    schema.migrations()
    Settings.load()
    registry.import_all()


class ForkServer:
    """Carries out requests and reaps children until the supervisor closes its end."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._children: dict[int, str] = {}  # process id -> id that the supervisor gave
        self._wakeup_in, self._wakeup_out = os.pipe()
        os.set_blocking(self._wakeup_in, False)
        os.set_blocking(self._wakeup_out, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup_out, warn_on_full_buffer=False)

    def run(self) -> int:
        while True:
            watched: list[socket.socket | int] = [self._channel, self._wakeup_in]
            readable, _, _ = select.select(watched, [], [])
            if self._wakeup_in in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup_in, 4096)
                self._reap()
            if self._channel in readable and not self._handle_request():
                self._end()
                return 0

    def _handle_request(self) -> bool:
        """Carry out one request; False when the supervisor has ended."""
        try:
            data, fds = _receive(self._channel)
        except ConnectionError:
            return False
        if not data:
            return False
        message = json.loads(data)
        if "fork" in message:
            self._fork(message, fds)
        elif "kill" in message:
            self._kill(message)
        return True

    def _fork(self, message: Mapping[str, Any], fds: Sequence[int]) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become(message, fds, parent=parent, inherited=(self._channel, self._wakeup_in, self._wakeup_out))
        for fd in fds:
            os.close(fd)
        self._children[pid] = message["fork"]
        self._tell({"forked": message["fork"], "pid": pid})

    def _kill(self, message: Mapping[str, Any]) -> None:
        # Only children that are not reaped yet: no other process can have their ids.
        for pid, given in self._children.items():
            if given == message["kill"]:
                if message.get("group"):
                    kill_group(pid, message["signal"])
                else:
                    os.kill(pid, message["signal"])

    def _reap(self) -> None:
        while self._children:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            given = self._children.pop(pid, None)
            # Its own children must not outlive it. The group keeps its id until the last member has ended.
            kill_group(pid)
            if given is not None:
                self._tell({"exited": given, "code": os.waitstatus_to_exitcode(status)})

    def _tell(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(ConnectionError):
            self._channel.send(json.dumps(message).encode())

    def _end(self) -> None:
        """Kill and reap every child; otherwise it stays a zombie where process 1 does not reap."""
        for pid in self._children:
            kill_group(pid)
        for pid in self._children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _leave(parent: int, inherited: Sequence[socket.socket | int]) -> None:
    """In a child: a process group of its own, tied to the life of *parent*, without the parent's descriptors."""
    os.setpgid(0, 0)
    die_with_parent(parent)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    for thing in inherited:
        thing.close() if isinstance(thing, socket.socket) else os.close(thing)


def _become(
    message: Mapping[str, Any], fds: Sequence[int], *, parent: int, inherited: Sequence[socket.socket | int]
) -> None:
    """In the child: drop the parent's descriptors, take the environment, run the entry, exit. Never returns."""
    code = 1
    try:
        _leave(parent, inherited)
        gc.enable()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        out, err, ready, *more = fds
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (out, 1), (err, 2)):
            os.dup2(source, target)
            os.close(source)
        os.environ.clear()
        os.environ.update(message["env"])
        time.tzset()
        name_process(message["name"])
        sys.argv = [message["name"]]
        module, _, function = message["entry"].partition(":")
        code = getattr(importlib.import_module(module), function)(message["options"], ready, more) or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - the process ends here and prints why
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)  # not sys.exit: the clean-up of the fork server must not run here


def _receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    """One message and the file descriptors that came with it, which no program that a child starts inherits."""
    fds = array.array("i")
    room = socket.CMSG_SPACE(MAX_FDS * fds.itemsize)
    data, ancillary, _, _ = channel.recvmsg(MAX_MESSAGE, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return data, list(fds)


if __name__ == "__main__":
    sys.exit(main())
