"""Child processes that can't outlive this one, and the reading of their output.

Every child is the leader of its own process group and asks the kernel to be killed when its parent dies
(``PR_SET_PDEATHSIG``, https://man7.org/linux/man-pages/man2/prctl.2.html), so even ``kill -9`` of the supervisor
leaves nothing behind. On other systems than Linux the request does nothing.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15

# Loaded once, before any fork, because a forked child must not import.
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when *parent* (a process id) ends; exit at once if it has ended already."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def name_process(name: str) -> None:
    """Show *name* (15 bytes at most) in ``ps`` and ``top``."""
    if _libc is not None:
        _libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def process_started() -> float:
    """When this process started, by ``time.monotonic``, to a hundredth of a second; where no kernel tells, now."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])  # proc_pid_stat(5): starttime
    except OSError:
        return time.monotonic()
    return time.monotonic() - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def give_way(niceness: int) -> None:
    """Let other processes of this machine go first, by *niceness* (0 to 19) at least; so do all later children."""
    os.setpriority(os.PRIO_PROCESS, 0, max(niceness, os.getpriority(os.PRIO_PROCESS, 0)))


def tied_to_this_process() -> Callable[[], None]:
    """A ``preexec_fn`` for children of the calling process."""
    parent = os.getpid()
    return lambda: die_with_parent(parent)


async def spawn(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    pass_fds: Sequence[int] = (),
    cwd: Path | None = None,
    umask: int = -1,
) -> asyncio.subprocess.Process:
    """Start a program in its own process group, tied to this process.

    Its stdout and stderr go to one pipe.

    Args:
        umask: of the program; -1: ours.
    """
    return await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=dict(environment),
        pass_fds=tuple(pass_fds),
        cwd=cwd,
        umask=umask,
        process_group=0,
        preexec_fn=tied_to_this_process(),
        limit=1 << 20,
    )


async def stop(process: asyncio.subprocess.Process, *, timeout_s: float) -> bool:
    """Send SIGTERM, wait, and SIGKILL the whole group if it does not end in time. True if it ended in time."""
    graceful = True
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), timeout_s)
        except TimeoutError:
            graceful = False
            kill_group(process.pid)
            await process.wait()
    return graceful


def kill_group(pid: int, number: int = signal.SIGKILL) -> None:
    """Send signal *number* to the process group that *pid* leads; an ended group is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def follow(stream: asyncio.StreamReader, line: Callable[[str], None]) -> None:
    """Call *line* with each line of *stream* until it ends; a line longer than the buffer is left out."""
    while True:
        try:
            raw = await stream.readline()
        except ValueError:  # longer than the limit: the stream dropped its buffer, and the next line is complete again
            line("(a line of more than 1 MB was left out)")
            continue
        if not raw:
            return
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        if text:
            line(text)
