"""The state folder, which holds everything that the emulator keeps, and its lock, which admits one emulator.

==================== ===================================================================================
``postroom.db*``     the database
``s3/``              the bucket
``platforms.db``     the chats on the fake platforms
``agents/``          the agents' working folders
``run/``             sockets
``snapshots/``       copies to go back to, which a reset keeps
``logs/``            the log, ``emulator.log``, and older ones
``lock``             held while the emulator runs; the kernel releases it when the process ends
``clock``            the clock of the rows, where it is not the machine's
``instance.json``    process id and addresses of the running emulator; may be stale
``kept.json``        the secret of the ticks, and the ports that printed URLs contain
``owner.json``       the name under which this folder takes the lease on the replica
``.postroom-state``  marks the folder as the emulator's
==================== ===================================================================================

The emulator makes or deletes nothing in a folder that is not its own.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.base.errors import AlreadyInUse, WrongFolder
from emulator.base.hints import command_line
from shared.db.engine.owner_only import replace_text

_LONGEST_SOCKET_PATH = 90  # sun_path has 108 bytes, and a name such as "litestream.sock" follows
_MARK = ".postroom-state"
_OURS = (
    *(
        "s3",
        "run",
        "agents",
        "snapshots",
        "logs",
        "lock",
        "clock",
        "instance.json",
        "instance.json.tmp",
        "kept.json",
        "kept.json.tmp",
    ),
    *("owner.json", "owner.json.tmp"),
)
_OURS_BEGIN = ("postroom.db", ".postroom.db-", "platforms.db")
_PROJECT_FILES = (".git", "template.yaml", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The paths in one state folder, and its content."""

    path: Path

    @property
    def database(self) -> Path:
        return self.path / "postroom.db"

    @property
    def platforms(self) -> Path:
        """The chats on the fake platforms."""
        return self.path / "platforms.db"

    @property
    def s3(self) -> Path:
        return self.path / "s3"

    @property
    def agents(self) -> Path:
        return self.path / "agents"

    @property
    def snapshots(self) -> Path:
        return self.path / "snapshots"

    @property
    def clock(self) -> Path:
        """The clock of the rows, see :mod:`emulator.base.clock_page`."""
        return self.path / "clock"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def log_file(self) -> Path:
        """What the emulator and its processes reported: one JSON object a line."""
        return self.logs / "emulator.log"

    @property
    def owner(self) -> Path:
        """The file with the owner of the lease on the replica."""
        return self.path / "owner.json"

    @property
    def instance_file(self) -> Path:
        return self.path / "instance.json"

    @property
    def is_blank(self) -> bool:
        """Whether it has neither a database nor a bucket, as after a start that was refused."""
        return not self.database.exists() and not (self.s3.is_dir() and any(self.s3.iterdir()))

    @property
    def is_marked(self) -> bool:
        """Whether an emulator made it."""
        return (self.path / _MARK).exists() or (self.path / "kept.json").exists()

    @property
    def run(self) -> Path:
        """The folder of the Unix sockets: inside, unless the path is too long for a socket's address."""
        inside = self.path / "run"
        if len(str(inside)) <= _LONGEST_SOCKET_PATH:
            return inside
        short = hashlib.sha256(str(self.path).encode()).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"postroom-{os.getuid()}-{short}"

    @property
    def problem(self) -> str | None:
        """Why the emulator must not use, and so delete in, this folder; None if it may."""
        path = self.path.resolve()
        for name, whose in (("your home folder", Path.home()), ("the folder you are in", Path.cwd())):
            if path in (whose.resolve(), *whose.resolve().parents):
                return f"{self.path} is, or contains, {name}"
        try:
            names = {entry.name for entry in path.iterdir()}
        except FileNotFoundError:
            return None
        if found := [name for name in _PROJECT_FILES if name in names]:
            return f"{self.path} is a project's folder: it has {found[0]}"
        # Checked after the names were read: an emulator that makes the folder makes the mark first.
        if not names or (path / _MARK).exists() or "kept.json" in names:
            return None
        strangers = sorted(name for name in names if not _is_ours(name))
        if not strangers and ("lock" in names or "postroom.db" in names or (path / "s3" / "postroom-replica").is_dir()):
            return None
        return f"{self.path} was not made by the emulator: it has {(strangers or sorted(names))[0]}"

    def prepare(self) -> None:
        """Make the folders, readable by this user only and ignored by git.

        Raises:
            WrongFolder: the folder is not the emulator's; nothing was made.
            AlreadyInUse: the folder for sockets belongs to another user.
        """
        if self.problem is not None:
            raise WrongFolder(
                f"{self.problem}. The emulator deletes files in its state folder, so it needs an empty or a "
                f"new one, such as --state .emulator; nothing was changed"
            )
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.path / _MARK).touch(mode=0o600)
        for folder in (self.s3, self.agents, self.logs, self.run):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.run.stat().st_uid != os.getuid():
            raise AlreadyInUse(
                f"{self.run}, the folder for sockets, belongs to another user: use --state with a shorter path"
            )
        ignore = self.path / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")

    def kept(self) -> dict[str, Any]:
        """The values that stay the same over restarts: ``tick_secret`` and ``ports`` (name to number)."""
        found = _read_object(self.path / "kept.json")
        secret, ports = found.get("tick_secret"), found.get("ports")
        numbers = ports.items() if isinstance(ports, dict) else ()
        return {
            "tick_secret": secret if isinstance(secret, str) and secret else secrets.token_urlsafe(24),
            "ports": {name: port for name, port in numbers if type(port) is int and 0 < port < 65536},
        }

    def keep(self, kept: dict[str, Any]) -> None:
        replace_text(self.path / "kept.json", json.dumps(kept))

    def remove(self, *, keep: Sequence[str] = ()) -> list[str]:
        """Delete what the emulator made, but for *keep*, and the folder if it is then empty; returns what remains."""
        if self.problem is not None:
            return sorted(entry.name for entry in self.path.iterdir())
        self.remove_sockets()
        left = []
        for entry in sorted(self.path.iterdir()) if self.path.is_dir() else ():
            if not _is_ours(entry.name) or entry.name in keep:
                left.append(entry.name)
            elif entry.name == _MARK:
                continue  # the last to go, so that an interrupted removal can be repeated
            elif entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        if not left:
            (self.path / _MARK).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.path.rmdir()
        return left

    def remove_sockets(self) -> None:
        """Delete the sockets, which only a running emulator needs."""
        if self.problem is None:
            shutil.rmtree(self.run, ignore_errors=True)


def _is_ours(name: str) -> bool:
    """Whether the emulator makes an entry of that name in a state folder."""
    return name in (*_OURS, _MARK, ".gitignore") or name.startswith(_OURS_BEGIN)


def _read_object(path: Path) -> dict[str, Any]:
    """The JSON object in the file; empty if there is none that can be read."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class FolderLock:
    """The right to run in a state folder."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self._handle: int | None = None

    def take(self) -> None:
        """Hold the folder until :meth:`release` or the end of this process.

        Raises:
            AlreadyInUse: names the emulator that runs there and its address, and says what to do.
        """
        handle = os.open(self._state.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise AlreadyInUse(describe_use(self._state)) from None
        self._handle = handle
        self._state.instance_file.unlink(missing_ok=True)  # a killed emulator leaves a stale one

    def release(self) -> None:
        if self._handle is not None:
            self._state.instance_file.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None


def find_running(state: StateFolder) -> dict[str, Any] | None:
    """The emulator that runs in the folder: ``pid``, ``started``, ``urls``, ``environment``; None if there is none.

    ``{}`` while it starts and has not written its instance file yet.
    """
    try:
        handle = os.open(state.path / "lock", os.O_RDONLY | os.O_CLOEXEC)  # also on a disk that can only be read now
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # another look is no emulator
    except BlockingIOError:
        return _read_object(state.instance_file)
    finally:
        os.close(handle)
    return None


def describe_use(state: StateFolder) -> str:
    """The error for a folder that is in use, with the ways out."""
    found = find_running(state) or {}
    name = (
        f"emulator[{found['pid']}], started {found['started'][11:16]} UTC" if found else "an emulator that is starting"
    )
    where = f", gateway {found['urls']['gateway']}" if found.get("urls") else ""
    ways = {
        command_line("status", state.path): "show its status",
        command_line("stop", state.path): "stop it (or press Ctrl-C in its terminal)",
        command_line("run --ephemeral"): "run a second emulator with a temporary database",
    }
    width = max(len(way) for way in ways)
    return "\n".join(
        [
            f"{state.path} is in use by {name}{where}",
            *(f"  {way:<{width}}    {what}" for way, what in ways.items()),
        ]
    )
