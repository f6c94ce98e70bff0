"""The faults of the disk, in the process of a function: what SQLite writes fails, or comes late.

SQLite reaches the kernel through a table of system calls, and lets a program replace them. Ours stand there only while
a fault does, so that the database of a running function is hit, and nothing costs time otherwise. The errors are the
kernel's own: ENOSPC, and EIO.

Only SQLite in the functions and in their writer processes fails. Files of agents, logs, Litestream and the fake
platforms have the real disk.
"""

import errno
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.conversation.alerts import faults_by_hand

if TYPE_CHECKING:
    import apsw

    from emulator.base.faults import Fault, Faults

_WRITES = ("write", "pwrite64", "pwrite")  # a build of SQLite has some of them


def install(run: Path) -> None:
    """Follow the faults in this process, from now on and at each SIGUSR2; *run*: the folder of sockets."""
    file = faults_by_hand.path_in(run)
    faults = DiskFaults(file)
    signal.signal(signal.SIGUSR2, faults.read)
    if file.exists():
        faults.read()


class DiskFaults:
    """The faults of the disk in this process.

    Args:
        file: where the supervisor writes the faults of everything.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._faults: Faults | None = None
        self._calls: _Calls | None = None

    def read(self, *_: object) -> None:
        """Read the file again."""
        from emulator.base.faults import Fault, Faults  # late: most emulators have no fault
        from shared.core.time import clock

        found = faults_by_hand.read(self._file, now_ms=clock.machine_ms())
        own = [Fault.from_facts(each) for each in found if each["target"] == "disk"]
        if self._faults is None:
            self._faults = Faults("disk", clock.machine_ms)
        self._faults.follow(own)
        if own and self._calls is None:
            self._calls = _Calls(self._take)
        elif not own:
            self._restore()

    def _take(self) -> "Fault | None":
        """The fault that a write is to have."""
        if self._faults is None:
            return None
        fault = self._faults.take()
        if fault is None and not self._faults.standing():  # its time is over
            self._restore()
        return fault

    def _restore(self) -> None:
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.restore()


class _Calls:
    """Our system calls in place of the kernel's, until :meth:`restore`.

    Args:
        take: the fault that a write is to have.
    """

    def __init__(self, take: "Callable[[], Fault | None]") -> None:
        import apsw

        self._take = take
        self._vfs = apsw.VFS("postroom-faults", base="unix")
        self._kept: list[Any] = _kept  # SQLite may be inside one of them when it is replaced
        for name in _WRITES:
            if (address := _address(self._vfs, name)) is not None:
                self._replace(name, address)

    def restore(self) -> None:
        """Let the kernel answer again."""
        for name in _WRITES:
            if _address(self._vfs, name) is not None:
                self._vfs.xSetSystemCall(name, 0)  # SQLite's own

    def _replace(self, name: str, address: int) -> None:
        import ctypes
        import time

        offset = () if name == "write" else (ctypes.c_int64,)
        form = ctypes.CFUNCTYPE(
            ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, *offset, use_errno=True
        )
        real = form(address)

        def write(*given: Any) -> int:
            fault = self._take()
            if fault is not None and fault.kind == "slow":
                time.sleep(fault.delay_ms / 1000)
            elif fault is not None:
                ctypes.set_errno(errno.ENOSPC if fault.kind == "full" else errno.EIO)
                return -1
            return int(real(*given))

        ours = form(write)
        self._kept.append(ours)
        self._vfs.xSetSystemCall(name, ctypes.cast(ours, ctypes.c_void_p).value or 0)


_kept: list[Any] = []


def _address(vfs: "apsw.VFS", name: str) -> int | None:
    """Where the system call is at present; None: this build has no such call."""
    return vfs.xGetSystemCall(name)
