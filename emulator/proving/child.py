"""A program that is started again when it ends, as a container is, and the means to break it."""

import contextlib
import io
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from emulator.base.errors import NotReady, TimedOut

T = TypeVar("T")

PATIENCE = 3  # a busy machine, such as a disk that takes a second for an fsync, is no fault of ours
ROOT = Path(__file__).parents[2]  # what runs is this version, wherever the command was given
_LOOK_EVERY_S = 0.02
_PROGRAMS = (b"python", b"litestream", b"unshare", b"bwrap")  # of a run; the last two hold an agent's programs


def until(what: str, look: Callable[[], T | None], timeout_s: float = 20.0) -> T:
    """The first true result of *look*.

    Raises:
        TimedOut: *timeout_s* is long over; it names *what*.
    """
    deadline = time.monotonic() + timeout_s * PATIENCE
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(_LOOK_EVERY_S)
    raise TimedOut(f"not seen within {timeout_s * PATIENCE:g} s: {what}")


class Child:
    """One program that is started again when it ends; its lines go to ``NAME.log``."""

    def __init__(self, name: str, argv: Sequence[Any], environment: dict[str, str], log: Path, fds: Sequence[int] = ()):
        self.name = name
        self.argv = [str(word) for word in argv]
        self.environment = environment
        self.log = log
        self._fds = fds
        self._limits: dict[int, tuple[int, int]] = {}
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._is_up = threading.Event()
        self._restarter: threading.Thread | None = None

    def start(self) -> None:
        self._stopping.clear()
        self._is_up.clear()
        self._process = self._spawn()
        self._restarter = threading.Thread(target=self._restart, daemon=True)
        self._restarter.start()

    def _spawn(self) -> subprocess.Popen[bytes]:
        # A pipe, not the file: a full disk is a limit on the size of files.
        self.starts += 1
        process = subprocess.Popen(
            self.argv,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **self.environment},
            pass_fds=self._fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for limit, values in list(self._limits.items()):
            resource.prlimit(process.pid, limit, values)
        threading.Thread(target=self._follow, args=(process,), daemon=True).start()
        return process

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        with process.stdout or io.BytesIO() as lines, self.log.open("ab") as log:
            for line in lines:
                log.write(line)
                log.flush()
                if b'"function.listening"' in line or b'"s3.ready"' in line:
                    self._is_up.set()

    def _restart(self) -> None:
        while self._process is not None:
            self._process.wait()
            if self._stopping.wait(0.1):
                return
            self._process = self._spawn()

    def is_up(self) -> bool:
        """Whether it has reported that it listens."""
        return self._is_up.is_set()

    @property
    def runs(self) -> bool:
        """Whether it was started, and not stopped for good."""
        return self._process is not None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise NotReady(f"{self.name} was not started, or it is stopped")
        return self._process.pid

    def end_restarts(self) -> None:
        """Start it no more when it ends."""
        self._stopping.set()

    def kill(self) -> None:
        """Kill it with -9; it is started again."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def limit(self, kind: int, soft: int) -> None:
        """Set a resource limit for it and its forks, and for each restart."""
        hard = resource.getrlimit(kind)[1]  # it was started with ours
        self._limits[kind] = (soft, hard)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self.pid, kind, (soft, hard))  # first: a later fork inherits it
        for pid in self.forks():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, kind, (soft, hard))

    def forks(self) -> list[int]:
        """Its children that run the same program, such as the process in which ingest stores."""
        return [pid for pid in children_of(self.pid) if command_of(pid) == command_of(self.pid)]

    def stop(self, how: int = signal.SIGTERM, patience_s: float = 20.0) -> int:
        """End it for good; the exit code."""
        if self._process is None:
            return 0
        self._stopping.set()
        while True:  # it may have been started again just now
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(patience_s)
                break
            how = signal.SIGKILL
        if self._restarter is not None and self._restarter.is_alive():  # or a signal came just as it was started
            self._restarter.join(5)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        self._process = None
        return code


def children_of(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def command_of(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def end_orphans(folder: Path, *, but: int | None = None) -> None:
    """End programs whose parent was killed; the folder in the command line or environment identifies them."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in (os.getpid(), but):
            with contextlib.suppress(OSError):
                if _is_of_run(entry, os.fsencode(f"{folder}/")):
                    os.kill(int(entry.name), signal.SIGKILL)


def _is_of_run(process: Path, mark: bytes) -> bool:
    """Whether the run started it, and not a person who follows a log there, or whose shell is there."""
    program, *words = (process / "cmdline").read_bytes().split(b"\0")
    if not program.rpartition(b"/")[2].startswith(_PROGRAMS):
        return False
    words += [each for each in (process / "environ").read_bytes().split(b"\0") if b"PWD=" not in each]
    return any(mark in each for each in words)
