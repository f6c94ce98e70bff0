"""Snapshots of the state folder: the database, the chats and the agents' folders, to go back to or to begin with.

A snapshot is a folder, by name below ``snapshots/`` of the state folder or at a path that a team keeps with its code.
The clock of the rows goes with it. The bucket is no part of it: a restored database begins a new replica.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import apsw

from emulator.base.errors import AlreadyInUse, DoesNotExist, EmulatorError, InvalidInput, NotADatabase, WrongFolder
from emulator.base.hints import command_line, relative
from emulator.base.state import FolderLock, StateFolder
from shared.core.errors import DatabaseRefused, DatabaseUnavailable
from shared.core.time import clock
from shared.db.engine import copies, schema
from shared.db.engine.connection import open_connection

_FACTS = "snapshot.json"
_FILES = ("postroom.db", "platforms.db")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot; *taken_at* in ms UTC, *schema* of its database."""

    name: str
    taken_at: int
    schema: int
    messages: int
    bytes: int


def take(state: StateFolder, name: str) -> Snapshot:
    """Copy what the folder holds now; an emulator may run meanwhile. When it is whole it replaces one of that name.

    Raises:
        DoesNotExist: there is no database.
        InvalidInput: the path has something else.
        EmulatorError: it could not be copied; an earlier snapshot stays.
    """
    if not state.database.exists():
        raise DoesNotExist(f"there is no database in {relative(state.path)}: nothing to take a snapshot of")
    target = _place(state, name)
    if target.exists() and not (target / _FACTS).exists():
        raise InvalidInput(f"{relative(target)} is no snapshot: choose another name; nothing was changed")
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".snapshot-", dir=target.parent) as place:
        new = Path(place) / "new"
        new.mkdir(mode=0o700)
        try:
            snapshot = _fill(new, state, target.name)
        except (OSError, shutil.Error, apsw.Error, DatabaseRefused, DatabaseUnavailable) as error:
            raise EmulatorError(f"no snapshot was taken: {error}") from None
        if target.exists():
            target.rename(Path(place) / "old")
        new.rename(target)
    return snapshot


def _fill(new: Path, state: StateFolder, name: str) -> Snapshot:
    for file in _FILES:
        if (state.path / file).exists():
            _copy_database(state.path / file, new / file)
    if state.clock.exists():
        shutil.copy(state.clock, new / state.clock.name)
    if state.agents.is_dir():
        shutil.copytree(state.agents, new / "agents", symlinks=True, ignore=_uncopied, copy_function=_copy)
    with closing(open_connection(new / "postroom.db", readonly=True)) as conn:
        version, messages = schema.inspect(conn, new / "postroom.db"), conn.execute("SELECT count(*) FROM messages").get
    snapshot = Snapshot(name, clock.now_ms(), version, messages, _size(new))
    (new / _FACTS).write_text(json.dumps(asdict(snapshot), indent=2) + "\n")
    return snapshot


def _uncopied(folder: str, names: list[str]) -> list[str]:
    """Sockets and pipes, which nobody can copy."""
    found = {name: Path(folder, name) for name in names}
    return [name for name, path in found.items() if not (path.is_file() or path.is_dir() or path.is_symlink())]


def _copy(source: str, target: str) -> None:
    with suppress(FileNotFoundError):  # an agent that works removed it meanwhile
        shutil.copy2(source, target, follow_symlinks=False)


def restore(state: StateFolder, name: str) -> Snapshot:
    """Put the snapshot in the place of what the folder holds; the bucket is emptied, because it has another history.

    Raises:
        DoesNotExist: there is no such snapshot.
        NotADatabase: its database can't be used here; nothing was changed.
        WrongFolder: the folder is not an emulator's, or not only; nothing was changed.
        EmulatorError: it could not be copied; nothing was changed.
        AlreadyInUse: an emulator runs in the folder.
    """
    source = _place(state, name)
    snapshot = read(source)
    _check(source / "postroom.db")
    if not state.is_blank and not state.is_marked:  # of a deployment, whose functions take no lock
        raise WrongFolder(
            f"{relative(state.path)} has a database that no emulator made: a restore would delete it. Choose another "
            f"--state; nothing was changed"
        )
    state.prepare()
    with _held(state):
        new = state.path / "restored.new"
        shutil.rmtree(new, ignore_errors=True)
        try:
            shutil.copytree(source, new, symlinks=True)
        except (OSError, shutil.Error) as error:  # a full disk, above all: nothing is deleted before the copy is whole
            shutil.rmtree(new, ignore_errors=True)
            raise EmulatorError(f"the snapshot could not be copied: {error}; nothing was changed") from None
        own = (state.s3, state.agents, state.clock)
        for old in (*state.path.glob("postroom.db*"), *state.path.glob("platforms.db*"), *own):
            shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
        for old in state.path.glob(".postroom.db-*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        for part in (
            "agents",
            "clock",
            "platforms.db",
            "postroom.db",
        ):  # the database last: without it the folder is empty
            if (new / part).exists():
                (new / part).rename(state.path / part)
        shutil.rmtree(new)
    return snapshot


def find_all(state: StateFolder) -> list[Snapshot]:
    """The snapshots by name in the state folder, the newest first."""
    folder = state.snapshots
    found = [read(each) for each in folder.iterdir() if (each / _FACTS).exists()] if folder.is_dir() else []
    return sorted(found, key=lambda each: -each.taken_at)


def read(folder: Path) -> Snapshot:
    """
    Raises:
        DoesNotExist: the folder is no snapshot.
    """
    try:
        return Snapshot(**json.loads((folder / _FACTS).read_text()))
    except (OSError, ValueError, TypeError):
        raise DoesNotExist(f"{relative(folder)} is no snapshot; `{command_line('data list')}` lists them") from None


def _place(state: StateFolder, name: str) -> Path:
    """The folder of the snapshot: a name, or a path, which has a slash."""
    return Path(name).resolve() if os.sep in name or name in (".", "..") else state.snapshots / name


def _copy_database(source: Path, target: Path) -> None:
    with closing(open_connection(source, readonly=True)) as conn:
        copies.make(conn, source, target)


def _check(file: Path) -> None:
    try:
        with schema.explained(file), closing(open_connection(file, readonly=True)) as conn:
            version, newest = schema.inspect(conn, file), max(schema.migrations())
            problem = conn.execute("PRAGMA quick_check").get
    except (DatabaseRefused, DatabaseUnavailable) as error:
        raise NotADatabase(f"{error}; nothing was changed") from None
    if problem != "ok":
        raise NotADatabase(f"{relative(file)} is damaged ({problem}); nothing was changed")
    if version > newest:
        raise NotADatabase(
            f"{relative(file)} has schema {version}, of a later release; this one knows {newest}; nothing was changed"
        )


@contextmanager
def _held(state: StateFolder) -> Iterator[None]:
    """
    Raises:
        AlreadyInUse: an emulator runs in the folder.
    """
    lock = FolderLock(state)
    try:
        lock.take()
    except AlreadyInUse as error:
        raise AlreadyInUse(f"stop the emulator first: {error}") from None
    try:
        yield
    finally:
        lock.release()


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file() and not each.is_symlink())
