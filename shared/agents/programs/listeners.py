"""Sockets that listen inside sandboxes, whose connections dispatch accepts itself: the sandbox needs no process for it.

A socket stays in the network namespace in which it was made, whichever process has it open. ``netns_listener`` makes
them, in one process for each dispatch.
"""

import asyncio
import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path

from shared.agents.programs import containment, pipes, syscalls
from shared.agents.programs.containment import ProgramCommand

_MAKER = Path(__file__).with_name("netns_listener.py")
_LIMIT_S = 10.0
_PROBE_PORT = 8123
_LONGEST_ANSWER = 256


class Listeners:
    """Owned by one dispatch. Its process starts with the first request.

    Args:
        maker: the program of that process.
    """

    def __init__(self, maker: Path = _MAKER) -> None:
        self._maker = maker
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: deque[asyncio.Future[socket.socket]] = deque()

    async def listen(self, pid: int, port: int) -> socket.socket:
        """A socket that listens on 127.0.0.1:*port*, where the process *pid* has its network.

        Raises:
            OSError: the process is gone, or the kernel refuses.
        """
        answer: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
        namespace = _network_of(pid)
        try:
            socket.send_fds(self._open_line(), [b"%d" % port], [namespace])
        except ConnectionError:
            self.close()
            raise
        finally:
            os.close(namespace)
        self._waiting.append(answer)
        async with asyncio.timeout(_LIMIT_S):
            return await answer

    def close(self) -> None:
        """End the process; requests under way fail."""
        if self._line is None or self._process is None:
            return
        asyncio.get_running_loop().remove_reader(self._line)
        self._line.close()
        self._line = None
        self._process.wait()
        while self._waiting:
            self._fail(self._waiting.popleft(), "the process that makes sockets inside sandboxes ended")

    def _open_line(self) -> socket.socket:
        if self._line is None:
            self._line, self._process = _start(self._maker)
            self._line.setblocking(False)
            asyncio.get_running_loop().add_reader(self._line, self._hear)
        return self._line

    def _hear(self) -> None:
        """Hand out what came; where the process is gone, the next request starts another one."""
        while self._line is not None:
            try:
                made = _receive(self._line)
            except BlockingIOError:
                return
            except (EOFError, ConnectionError):
                self.close()
                return
            except OSError as error:
                self._fail(self._waiting.popleft(), str(error))
            else:
                self._give(self._waiting.popleft(), made)

    def _give(self, answer: asyncio.Future[socket.socket], made: socket.socket) -> None:
        if answer.done():  # its sandbox is gone
            made.close()
        else:
            answer.set_result(made)

    def _fail(self, answer: asyncio.Future[socket.socket], reason: str) -> None:
        if not answer.done():
            answer.set_exception(OSError(reason))


def _start(maker: Path) -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        words = [os.path.realpath(sys.executable), "-I", "-S", str(maker)]
        nothing = subprocess.DEVNULL
        return ours, subprocess.Popen(words, stdin=theirs.fileno(), stdout=nothing, env={}, start_new_session=True)


def _receive(line: socket.socket) -> socket.socket:
    """The next answer.

    Raises:
        BlockingIOError: there is none yet.
        EOFError, ConnectionError: the process is gone.
        OSError: it could not make the socket.
    """
    said, descriptors, _, _ = socket.recv_fds(line, _LONGEST_ANSWER, 1, socket.MSG_CMSG_CLOEXEC)
    if descriptors:
        return socket.socket(fileno=descriptors[0])
    if said:
        raise OSError(said.decode("utf-8", "replace"))
    raise EOFError


def _network_of(pid: int) -> int:
    """The network namespace of a process in a sandbox, as a descriptor.

    Raises:
        OSError: the process is gone, or it has the network of this process.
    """
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if os.fstat(namespace).st_ino == os.stat("/proc/self/ns/net").st_ino:  # noqa: PTH116 - a number of this kernel
        os.close(namespace)
        raise ProcessLookupError("the sandbox is gone")
    return namespace


# -- what bubblewrap says of its child


class ChildPid:
    """Bubblewrap's ``--info-fd``: the number of the first process inside, as this process knows it.

    Attributes:
        theirs: the descriptor that bubblewrap writes to; the caller closes it once bubblewrap runs.
    """

    def __init__(self) -> None:
        self._ours, theirs = os.pipe()
        try:
            self.theirs = pipes.out_of_the_way(theirs)
        finally:
            os.close(theirs)

    def close(self) -> None:
        """Nobody wants to know it."""
        os.close(self._ours)

    def read(self) -> int:
        """Wait for it, a few milliseconds, and close.

        Raises:
            OSError: bubblewrap ended before.
        """
        said = b""
        with os.fdopen(self._ours, "rb", 0) as pipe:
            while not said.rstrip().endswith(b"}"):
                more = pipe.read(_LONGEST_ANSWER)
                if not more:
                    raise OSError("bubblewrap ended before the sandbox was ready")
                said += more
        return int(json.loads(said)["child-pid"])


@functools.cache
def is_supported() -> bool:
    """Whether this host lets us make sockets inside sandboxes. Tried once for each process."""
    child = ChildPid()
    probe = ProgramCommand(("/bin/sh",), Path("/usr"), {})
    fds = child.theirs, syscalls.opened()
    options = containment.bubblewrap(probe, ["--info-fd", str(child.theirs)], reads_filter=fds[1])
    try:
        words = [*options, "/bin/sh", "-c", "read _"]
        held = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=fds)
    except OSError:
        return False
    finally:
        pipes.close(*fds)
    with held:
        try:
            return _can_listen(child.read())
        except (OSError, EOFError):
            return False


def _can_listen(pid: int) -> bool:
    with contextlib.closing(os.fdopen(_network_of(pid))) as namespace:
        line, process = _start(_MAKER)
        with process, line:
            line.settimeout(_LIMIT_S)
            socket.send_fds(line, [b"%d" % _PROBE_PORT], [namespace.fileno()])
            _receive(line).close()
            line.close()
    return True
