"""The folder that holds everything the emulator keeps, and the lock that makes it one instance's.

``.emulator/``: ``postroom.db*``, ``s3/`` (the bucket), ``platforms.db``, ``agents/``, ``run/`` (sockets), ``logs/``,
``lock`` (held while running; the kernel drops it when the holder dies, however it dies), ``instance.json`` (who and
where; may be stale), ``kept.json`` (the secret of the ticks and the ports that printed URLs contain), ``owner.json``
(who takes the lease on the replica), and ``.postroom-state`` (the mark that the folder is ours). Nothing is made or
deleted in a folder that is somebody else's.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.base.errors import AlreadyInUse, WrongFolder
from emulator.base.hints import command_line

_LONGEST_SOCKET_PATH = 90  # sun_path has 108 bytes; names such as "litestream.sock" are appended
_MARK = ".postroom-state"
_OURS = (
    *("s3", "run", "agents", "logs", "lock", "instance.json", "instance.json.tmp", "kept.json", "kept.json.tmp"),
    *("owner.json", "owner.json.tmp"),
)
_OURS_BEGIN = ("postroom.db", ".postroom.db-", "platforms.db")
_SOMEBODY_ELSES = (".git", "template.yaml", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class StateFolder:
    """Paths under one folder."""

    path: Path

    @property
    def database(self) -> Path:
        return self.path / "postroom.db"

    @property
    def s3(self) -> Path:
        return self.path / "s3"

    @property
    def agents(self) -> Path:
        return self.path / "agents"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def owner(self) -> Path:
        """Who takes the lease on the replica."""
        return self.path / "owner.json"

    @property
    def instance_file(self) -> Path:
        return self.path / "instance.json"

    @property
    def run(self) -> Path:
        """Where the Unix sockets are: in the folder, unless its path is too long for a socket's address."""
        inside = self.path / "run"
        if len(str(inside)) <= _LONGEST_SOCKET_PATH:
            return inside
        short = hashlib.sha256(str(self.path).encode()).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"postroom-{os.getuid()}-{short}"

    @property
    def problem(self) -> str | None:
        """Why the folder can't be ours, which would be to delete in it; None when it can."""
        path = self.path.resolve()
        for name, whose in (("your home folder", Path.home()), ("the folder you are in", Path.cwd())):
            if path in (whose.resolve(), *whose.resolve().parents):
                return f"{self.path} is, or contains, {name}"
        try:
            names = {entry.name for entry in path.iterdir()}
        except FileNotFoundError:
            return None
        if found := [name for name in _SOMEBODY_ELSES if name in names]:
            return f"{self.path} is a project's folder: it has {found[0]}"
        # After the names: who makes the folder makes the mark first.
        if not names or (path / _MARK).exists() or "kept.json" in names:
            return None
        strangers = sorted(name for name in names if not _is_ours(name))
        if not strangers and ("lock" in names or "postroom.db" in names or (path / "s3" / "postroom-replica").is_dir()):
            return None
        return f"{self.path} was not made by the emulator: it has {(strangers or sorted(names))[0]}"

    def prepare(self) -> None:
        """Make the folders, for this user only, and keep them out of git.

        Raises:
            WrongFolder: it is not ours; nothing was made.
            AlreadyInUse: the folder for sockets is somebody else's.
        """
        if self.problem is not None:
            raise WrongFolder(
                f"{self.problem}, and the emulator deletes in its state folder. Name one that is empty or not there "
                f"yet, such as --state .emulator; nothing was changed"
            )
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.path / _MARK).touch(mode=0o600)
        for folder in (self.s3, self.agents, self.logs, self.run):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.run.stat().st_uid != os.getuid():
            raise AlreadyInUse(
                f"{self.run}, the folder for sockets, belongs to somebody else: use --state with a shorter path"
            )
        ignore = self.path / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")

    def kept(self) -> dict[str, Any]:
        """What must stay the same over restarts: ``tick_secret`` and ``ports`` (name to number)."""
        path = self.path / "kept.json"
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError):
            found = {}
        return {"tick_secret": found.get("tick_secret") or secrets.token_urlsafe(24), "ports": found.get("ports", {})}

    def keep(self, kept: dict[str, Any]) -> None:
        write_private(self.path / "kept.json", json.dumps(kept))

    def remove(self) -> list[str]:
        """Delete everything that we made, and the folder if that was all; the names of what is left in it."""
        if self.problem is not None:
            return sorted(entry.name for entry in self.path.iterdir())
        self.tidy()
        left = []
        for entry in sorted(self.path.iterdir()) if self.path.is_dir() else ():
            if not _is_ours(entry.name):
                left.append(entry.name)
            elif entry.name == _MARK:
                continue  # the last to go: a removal that is cut short can be done again
            elif entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        if not left:
            (self.path / _MARK).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.path.rmdir()
        return left

    def tidy(self) -> None:
        """Delete what only a running instance needs: the sockets."""
        if self.problem is None:
            shutil.rmtree(self.run, ignore_errors=True)


def _is_ours(name: str) -> bool:
    """Whether the emulator makes an entry of that name in its folder."""
    return name in (*_OURS, _MARK, ".gitignore") or name.startswith(_OURS_BEGIN)


def write_private(path: Path, text: str) -> None:
    """Replace the file's content at once, readable by this user only."""
    temporary = path.with_name(path.name + ".tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    temporary.replace(path)


class FolderLock:
    """The right to run in a state folder."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self._handle: int | None = None

    def take(self) -> None:
        """Hold the folder until :meth:`release` or the end of this process.

        Raises:
            AlreadyInUse: says who has it, since when, where it answers, and what to do.
        """
        handle = os.open(self._state.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise AlreadyInUse(describe(self._state)) from None
        self._handle = handle
        self._state.instance_file.unlink(missing_ok=True)  # a stale one, of somebody who was killed

    def release(self) -> None:
        if self._handle is not None:
            self._state.instance_file.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None


def running(state: StateFolder) -> dict[str, Any] | None:
    """The instance that holds the folder: ``pid``, ``started``, ``urls``, ``environment``; None when nobody does.

    ``{}`` when somebody does who has not yet written down who he is.
    """
    try:
        handle = os.open(state.path / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        try:
            found: dict[str, Any] = json.loads(state.instance_file.read_text())
        except (OSError, ValueError):
            return {}
        return found
    finally:
        os.close(handle)
    return None


def describe(state: StateFolder) -> str:
    """The sentence for somebody who wants a folder that is in use."""
    who = running(state) or {}
    name = f"emulator[{who['pid']}], started {who['started'][11:16]} UTC" if who else "an emulator that just starts"
    where = f", gateway {who['urls']['gateway']}" if who.get("urls") else ""
    ways = {
        command_line("status", state.path): "look at it",
        f"kill {who.get('pid', 'PID')}": "stop it (or Ctrl-C in its terminal)",
        command_line("run --ephemeral"): "run beside it with a throw-away database",
    }
    width = max(len(way) for way in ways)
    return "\n".join(
        [
            f"{state.path} is in use by {name}{where}",
            *(f"  {way:<{width}}    {what}" for way, what in ways.items()),
        ]
    )
