"""How a program is held in, and what it may see: by bubblewrap, by a PID namespace alone, or by a supervisor.

In all three, one process watches a socket whose other end only dispatch holds. When that end closes, everything that
the program started is killed, even what left its session and its parent. This works also when dispatch is killed while
the program starts, where the kernel's parent-death signal would be set too late.

Only bubblewrap is a leash: the program sees its agent's folder without the folders of other sessions, read-only parts
of the system and what its agent's config names, has no network, and shares no process, socket or ``/tmp`` with
anything else.
"""

import asyncio
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from shared.agents.programs import syscalls
from shared.core import logs
from shared.core.errors import ConfigInvalid

log = logs.get()

Kind = Literal["bubblewrap", "namespace", "supervisor"]
LeashPolicy = Literal["auto", "off", "required"]

_LAUNCHER = Path(__file__).with_name("launcher.py")
_PROBE_LIMIT_S = 10.0
_IN_MEMORY_BYTES = 1024**3  # of /tmp and of /dev/shm, each
FILTER = 4
"""The descriptor from which bubblewrap reads the filter of system calls: see ``syscalls.opened``."""

# The first process of the namespace. It waits for the end of file descriptor 3 and touches nothing else; the program's
# parent reports the exit code there. The shell says nothing of its own on standard error.
_SHELL = """\
exec 5>&2 6<&0 2>/dev/null
( ( exec "$@" ) <&6 2>&5 3<&- 5>&- 6<&-
  echo "$?" >&3 ) &
exec <&- >&- 5>&- 6<&-
read -r _ <&3
"""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store")
_ETC = (*("alternatives", "group", "hosts", "ld.so.cache", "localtime", "nsswitch.conf", "passwd", "pki", "ssl"),)


class GatewaySocket(msgspec.Struct, frozen=True):
    """The one way out: connections to 127.0.0.1:*port* inside arrive at the Unix socket *path*."""

    path: Path
    port: int


class SessionHome(NamedTuple):
    """What a leash puts at the place of the agent's folder: see ``shared/agents/session_homes.py``.

    Attributes:
        folder: of the session.
        shown: names and inode numbers of the entries of the agent's folder that are shown read-only.
        shared: the folder of all sessions.
    """

    folder: Path
    shown: tuple[tuple[str, int], ...]
    shared: Path
    may_write_shared: bool


@dataclass(frozen=True, slots=True)
class ProgramCommand:
    """A program to start.

    Attributes:
        words: the program and its arguments.
        folder: absolute; the working directory, and the only part of the disk that a leash leaves writable.
        home: what a leash puts there in its place; None: nothing.
        environment: all of it; nothing is inherited.
        readable: absolute paths that a leash shows read-only.
        session: turns of one session may use one sandbox, one after another; None: this run has its own.
        session_folder: exists below *folder*, and its parent too; a leash hides everything that is beside it.
        makes_sandboxes: the program makes namespaces of its own for what it starts; a leash otherwise refuses that.
    """

    words: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    readable: Sequence[Path] = ()
    gateway: GatewaySocket | None = None
    session: str | None = None
    session_folder: Path | None = None
    home: SessionHome | None = None
    makes_sandboxes: bool = False

    @property
    def writable(self) -> list[Path]:
        """The folders on disk where a leash lets it write. Without a home, others of its agent may write there too."""
        if self.home is None:
            return [self.folder]
        own = [self.home.folder, *([self.session_folder] if self.session_folder is not None else [])]
        return [*own, *([self.home.shared] if self.home.may_write_shared else [])]


class Containment(msgspec.Struct, frozen=True):
    """What this host allows.

    Attributes:
        why_no_leash: for people; None with bubblewrap.
    """

    kind: Kind
    why_no_leash: str | None = None
    unshare: tuple[str, ...] = ()

    @property
    def is_leash(self) -> bool:
        """Whether programs see only their own part of the disk and the network."""
        return self.kind == "bubblewrap"

    def wrapped(self, command: ProgramCommand) -> list[str]:
        """The command line that starts *command* in this containment."""
        match self.kind:
            case "bubblewrap":
                return [*bubblewrap(command), *_first_process(command)]
            case "namespace":
                return [*self.unshare, f"--wd={command.folder}", "--", "/bin/sh", "-c", _SHELL, "sh", *command.words]
            case "supervisor":
                return [*_python(), str(_LAUNCHER), "supervise", str(command.folder), *command.words]


@functools.cache
def available(policy: LeashPolicy = "auto") -> Containment:
    """The best containment that works on this host. Each process tries it once.

    Args:
        policy: "off" leaves bubblewrap out; "required" takes nothing else.

    Raises:
        ConfigInvalid: a leash is required, and this host has none.
    """
    why = why_no_leash(policy)
    if why is None:
        return Containment("bubblewrap")
    if policy == "required":
        raise ConfigInvalid(
            f"POSTROOM_LEASH is 'required', and {why}, so no program of an agent starts here: install bubblewrap, run "
            "dispatch on a host where it works, or give the agent the provider 'api', which starts none"
        )
    log.warning("agent.not_leashed", reason=why, unprotected="see docs/agents/leash.md")
    return _without_leash(why)


async def found(policy: LeashPolicy = "auto") -> Containment:
    """As ``available``, without blocking the event loop."""
    if available.cache_info().currsize == 0:
        return await asyncio.to_thread(available, policy)
    return available(policy)


def _without_leash(why: str) -> Containment:
    for words in _unshare_variants():
        if _works([*words, "--wd=/", "--", "/bin/sh", "-c", ":"]) is None:
            return Containment("namespace", why, words)
    return Containment("supervisor", why)


@functools.cache
def why_no_leash(policy: LeashPolicy = "auto") -> str | None:
    """Why bubblewrap does not work here, for people; None if it works. Each process tries it once."""
    if policy == "off":
        return "POSTROOM_LEASH is off"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (its program is bwrap)"
    probe = ProgramCommand(("/bin/sh",), Path("/usr"), {})
    syscall_filter = syscalls.opened()
    try:
        failed = _works([*bubblewrap(probe, reads_filter=syscall_filter), "/bin/sh", "-c", ":"], syscall_filter)
    finally:
        os.close(syscall_filter)
    return None if failed is None else f"bubblewrap does not work here ({failed})"


def _works(words: Sequence[str], *fds: int) -> str | None:
    """Why this command line can't be run, or None."""
    nothing = subprocess.DEVNULL
    try:
        tried = subprocess.run(
            words, check=False, capture_output=True, timeout=_PROBE_LIMIT_S, stdin=nothing, pass_fds=fds
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = tried.stderr.decode("utf-8", "replace").strip()[-200:]
    return None if tried.returncode == 0 else said or "no reason given"


def _unshare_variants() -> Iterator[tuple[str, ...]]:
    unshare = shutil.which("unshare")
    if unshare is not None:
        base = (unshare, "--pid", "--fork", "--kill-child", "--mount-proc")
        yield base
        yield (*base, "--user", "--map-current-user")


def _first_process(command: ProgramCommand) -> list[str]:
    if command.gateway is None:
        return ["/bin/sh", "-c", _SHELL, "sh", *command.words]
    port, path = str(command.gateway.port), str(command.gateway.path)
    return [*_python(), str(_LAUNCHER), "forward", port, path, *command.words]


def _python() -> list[str]:
    return [os.path.realpath(sys.executable), "-I", "-S"]


# -- bubblewrap -------------------------------------------------------------------------------------------------------


def bubblewrap(command: ProgramCommand, further: Sequence[str] = (), *, reads_filter: int = FILTER) -> list[str]:
    """The options of bubblewrap, up to the first process. Source: its manual, bwrap(1), of 0.8.

    Args:
        further: options of the caller.
        reads_filter: the descriptor with the filter of system calls.
    """
    words = [*_isolated(), *_no_further_namespaces(command, reads_filter), *_system()]
    for path in _read_only(command):
        words += ["--ro-bind", str(path), str(path)]
    folder = str(command.folder)
    words += ["--bind", folder, folder] if command.home is None else _at_home(command.folder, command.home)
    if command.session_folder is not None:
        words += _alone(command.session_folder)
    if command.gateway is not None:
        words += ["--bind", str(command.gateway.path), str(command.gateway.path)]
    return [*words, *further, "--remount-ro", "/", "--chdir", folder, "--"]


def _at_home(folder: Path, home: SessionHome) -> list[str]:
    words = ["--bind", str(home.folder), str(folder)]
    for name, _ in home.shown:
        words += ["--ro-bind", str(folder / name), str(folder / name)]
    return [*words, "--bind" if home.may_write_shared else "--ro-bind", str(home.shared), str(home.shared)]


def _alone(session_folder: Path) -> list[str]:
    """Hide what is beside the folder. The program can't remove or rename what something is mounted on."""
    beside, own = str(session_folder.parent), str(session_folder)
    return ["--tmpfs", beside, "--bind", own, own, "--remount-ro", beside]


def _isolated() -> list[str]:
    return [
        *(shutil.which("bwrap") or "bwrap", "--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--as-pid-1", "--die-with-parent"),
        *("--proc", "/proc", "--dev", "/dev", *_in_memory("/dev/shm"), "--remount-ro", "/dev"),  # noqa: S108
        *_in_memory("/tmp"),  # noqa: S108 - a new and empty one
    ]


def _no_further_namespaces(command: ProgramCommand, reads_filter: int) -> list[str]:
    """Inside, a program is root of nothing. Without a filter for this machine, bubblewrap 0.8 and newer forbids it."""
    if syscalls.program():
        return ["--seccomp", str(reads_filter)]
    is_known = "--disable-userns" in bubblewrap_help()
    return ["--disable-userns"] if is_known and not command.makes_sandboxes else []


def _in_memory(path: str) -> list[str]:
    """A new and empty folder in memory, with a limit where this bubblewrap has such limits (0.7 and newer)."""
    size = ["--size", str(_IN_MEMORY_BYTES)] if "--size" in bubblewrap_help() else []
    return [*size, "--tmpfs", path]


@functools.cache
def bubblewrap_help() -> str:
    """What bubblewrap says about its options; empty where it is not installed."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return ""
    return subprocess.run([bwrap, "--help"], check=False, capture_output=True, text=True).stdout


@functools.cache
def _system() -> tuple[str, ...]:
    """Read-only parts of the system that any program needs."""
    words: list[str] = []
    for path in _SYSTEM:
        if os.path.islink(path):  # noqa: PTH114
            words += ["--symlink", str(Path(path).readlink()), path]
        elif os.path.isdir(path):  # noqa: PTH112
            words += ["--ro-bind", path, path]
    for name in _ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return tuple(words)


def shown(command: ProgramCommand) -> list[Path]:
    """The paths that are bound into a sandbox, besides those of the system."""
    return [*_read_only(command), command.folder, *([command.gateway.path] if command.gateway is not None else [])]


def _read_only(command: ProgramCommand) -> list[Path]:
    """What is shown read-only: outer folders first, because a bind hides what was bound below it."""
    paths = {*command.readable}
    if command.gateway is not None:
        paths |= {_LAUNCHER, Path(sys.base_prefix)}
    return sorted(path for path in paths if not _is_below(path, [Path(each) for each in _SYSTEM]))


def _is_below(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


# -- what a command may read ------------------------------------------------------------------------------------------


def readable_paths(
    words: Sequence[str], named: Sequence[str], environment: Mapping[str, str], private: Sequence[Path]
) -> tuple[Path, ...]:
    """What a leash shows: the paths of the agent's config, and the program, with its virtual environment.

    Args:
        named: as the config says.
        private: what no program may see: the database, the sockets, the folders of agents.

    Raises:
        ConfigInvalid: a path is missing, or shows what is private.
    """
    chosen = [_named(text) for text in named]
    found = [*chosen, *_of_command(words, environment)]
    secrets = [(secret, _beginning(secret)) for secret in private]
    for path in found:
        here = _beginning(path)
        for secret, there in secrets:
            if there.startswith(here) or (here.startswith(there) and path in chosen):
                raise ConfigInvalid(
                    f"the program can't be shown {str(path)!r}, because of {str(secret)!r}, which no program may see: "
                    "name another folder in 'readable' of its config, or move the program"
                )
    return tuple(found)


def _real(path: Path) -> str:
    """As ``realpath``. The kernel resolves a path that exists, eight times as fast."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        if not path.is_symlink() and path.name != "..":
            return os.path.join(_real(path.parent), path.name)  # noqa: PTH118
        return os.path.realpath(path)
    except OSError:
        return os.path.realpath(path)
    try:
        return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - each turn comes here
    finally:
        os.close(fd)


def _beginning(path: Path) -> str:
    """The real path with a slash at its end: a prefix of the path itself and of all paths below it, and of no other."""
    return os.path.join(_real(path), "")  # noqa: PTH118 - each turn comes here


def _named(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute():
        raise ConfigInvalid(f"'readable' in the agent's config: {text!r} is not an absolute path")
    if not path.exists():
        raise ConfigInvalid(f"'readable' in the agent's config: {text!r} does not exist on this machine")
    return path


def _of_command(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[Path]:
    """Files that the command names by an absolute path; for an interpreter, all of its virtual environment."""
    for word in words[1:]:
        if word.startswith("/") and os.path.isfile(word):  # noqa: PTH113
            yield Path(word)
    program = shutil.which(words[0], path=environment.get("PATH", os.defpath))
    if program is None or not program.startswith("/"):
        return
    prefix = os.path.dirname(os.path.dirname(program))  # noqa: PTH120 - each turn comes here
    if os.path.isfile(f"{prefix}/pyvenv.cfg"):  # noqa: PTH113
        yield Path(prefix)
        yield Path(_real(Path(program))).parent.parent
    elif words[0].startswith("/"):
        yield Path(program)
        yield Path(_real(Path(program)))
