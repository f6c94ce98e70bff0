"""The folder of another program: read, never changed, and nothing outside it is followed."""

import contextlib
import io
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import apsw

from emulator.base import errors

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1 << 20
UNREADABLE = "this user may not read it"


class FoundFile(NamedTuple):
    """A file below the folder, and its bytes. *problem*: why it can't be read; of a folder, why nothing in it can."""

    path: str
    size: int
    problem: str = ""


class SourceFolder:
    """A folder that somebody named. No link in it is followed: what is behind one counts as missing."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def has(self, name: str) -> bool:
        """Whether there is such a file or folder.

        Raises:
            InvalidInput: this user may not read it, as of all that follows.
        """
        return self._mode(name) is not None

    def is_folder(self, name: str) -> bool:
        """Whether there is such a folder."""
        mode = self._mode(name)
        return mode is not None and stat.S_ISDIR(mode)

    def text(self, name: str) -> str | None:
        """The text of a file; None: there is none, or it is no text."""
        found = self.read(name)
        try:
            return found.decode() if found is not None else None
        except UnicodeDecodeError:
            return None

    def json(self, name: str) -> Any:
        """The parsed JSON of a file; None: there is no file.

        Raises:
            InvalidInput: it is no JSON.
        """
        found = self.read(name)
        if found is None:
            return None
        try:
            return json.loads(found)
        except ValueError as error:
            raise errors.InvalidInput(
                f"{self.root / name} is not JSON ({error}), so nothing was read from it"
            ) from None

    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None: there is none."""
        content = io.BytesIO()
        return content.getvalue() if self.copy(name, content) else None

    def copy(self, name: str, target: IO[bytes]) -> bool:
        """Write the bytes of a file; False: there is none."""
        with self._found(name) as fd:
            if fd is None or not stat.S_ISREG(os.fstat(fd).st_mode):
                return False
            for chunk in iter(lambda: os.read(fd, _CHUNK), b""):
                target.write(chunk)
        return True

    def folders(self, name: str) -> list[str]:
        """The names of the folders in a folder."""
        return [entry.name for entry in self._entries(name) if entry.is_dir(follow_symlinks=False)]

    def files(self, name: str) -> Iterator[FoundFile]:
        """All that is below a folder and is none itself, by path, which begins there."""
        try:
            entries = self._entries(name)
        except errors.InvalidInput:
            yield FoundFile("", 0, UNREADABLE)
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                for below in self.files(f"{name}/{entry.name}"):
                    yield below._replace(path=f"{entry.name}/{below.path}".rstrip("/"))
            elif entry.is_symlink():
                yield FoundFile(entry.name, 0, "it is a link, and links are not followed")
            elif entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):  # it has just gone
                    yield FoundFile(entry.name, entry.stat(follow_symlinks=False).st_size)

    def size(self, name: str) -> tuple[int, int]:
        """How many files are below a folder, and their bytes."""
        found = [each.size for each in self.files(name) if not each.problem]
        return len(found), sum(found)

    @contextlib.contextmanager
    def database(self, name: str) -> Iterator[apsw.Connection]:
        """A copy of an SQLite database with its ``-wal``, where most of it may be.

        Raises:
            InvalidInput: it is torn, or no database.
        """
        with tempfile.TemporaryDirectory(prefix="postroom-import-") as folder:
            copy = Path(folder, "copy.db")
            for end in ("", "-wal"):
                part = self.read(name + end)
                if part is not None:
                    Path(f"{copy}{end}").write_bytes(part)
            try:
                conn = apsw.Connection(str(copy))
                if [str(row[0]) for row in conn.execute("PRAGMA quick_check(1)")] != ["ok"]:
                    raise apsw.CorruptError("it is torn")
            except apsw.Error as error:
                raise errors.InvalidInput(
                    f"{self.root / name} can't be read ({error}): stop the program that writes it, copy the folder "
                    "again with all files beside the database, and import the copy"
                ) from None
            try:
                yield conn
            finally:
                conn.close()

    def _mode(self, name: str) -> int | None:
        with self._found(name) as fd:
            return os.fstat(fd).st_mode if fd is not None else None

    def _entries(self, name: str) -> list[os.DirEntry[str]]:
        if not self.is_folder(name):
            return []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.root / name) as found:
            return sorted(found, key=lambda entry: entry.name)
        return []  # it has just gone

    @contextlib.contextmanager
    def _found(self, name: str) -> Iterator[int | None]:
        """The open file or folder; None: there is none, or only a link."""
        with contextlib.ExitStack() as opened:
            try:
                fd = opened.enter_context(self._opened(name))
            except PermissionError as error:
                raise errors.InvalidInput(
                    f"{self.root / name} can't be read ({error.strerror}): give this user the right to read it"
                ) from None
            except OSError:
                fd = None
            yield fd

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        """The open file or folder; each folder on the way is a real one."""
        parts = [part for part in name.split("/") if part != "."]
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for number, part in enumerate(parts, 1):
                fd = _step(fd, part, _FOLDER if number < len(parts) else _FILE | os.O_NOATIME)
            yield fd
        finally:
            os.close(fd)


def _step(fd: int, name: str, flags: int) -> int:
    """The open file or folder below; *fd* is closed in its favour."""
    if name == "..":
        raise OSError("it leads out of its folder")
    try:
        below = os.open(name, flags, dir_fd=fd)
    except PermissionError:  # only the owner may read without leaving the time of it
        below = os.open(name, flags & ~os.O_NOATIME, dir_fd=fd)
    os.close(fd)
    return below


def rows(conn: apsw.Connection, table: str) -> list[dict[str, Any]]:
    """All rows of a table, by column; none where there is no such table."""
    if not list(conn.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))):
        return []
    cursor = conn.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - a name of ours
    try:
        names = [name for name, *_ in cursor.get_description()]
    except apsw.ExecutionCompleteError:  # it has no rows
        return []
    return [dict(zip(names, row, strict=True)) for row in cursor]
