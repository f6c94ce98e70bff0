"""Files that Postroom itself puts into an agent's folder. The agent may write there too, so no link of its making is
followed: a file lands below the folder, or not at all.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from shared.core.errors import ConfigInvalid

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_folder(agent_folder: Path, name: str) -> Path:
    """The folder *name*, such as ``sessions/SESSION/claude``, which exists from now on.

    Raises:
        ConfigInvalid: a link, or something that is no folder, stands in the way.
    """
    with _open(agent_folder, name):
        return agent_folder / name


def write(agent_folder: Path, name: str, text: str) -> Path:
    """Write the file *name*, such as ``sessions/SESSION/codex/config.toml``, in place of what is there.

    Raises:
        ConfigInvalid: a link, or something that is no folder, stands in the way.
    """
    parent, _, last = name.rpartition("/")
    with _open(agent_folder, parent) as folder:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(last, dir_fd=folder)
        with os.fdopen(os.open(last, _FILE, 0o600, dir_fd=folder), "w", encoding="utf-8") as file:
            file.write(text)
    return agent_folder / name


def read(agent_folder: Path, name: str, *, most_bytes: int) -> bytes | None:
    """What the file *name* has; None: it is larger, no plain file, gone, or behind a link."""
    parent, _, last = name.rpartition("/")
    try:
        with _open(agent_folder, parent) as folder:
            fd = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except (OSError, ConfigInvalid):
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    with os.fdopen(fd, "rb") as file:
        found = file.read(most_bytes + 1)
    return found if len(found) <= most_bytes else None


@contextlib.contextmanager
def _open(agent_folder: Path, name: str) -> Iterator[int]:
    """A descriptor of the folder, made where it is missing."""
    fd = os.open(agent_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in filter(None, name.split("/")):
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=fd)
            try:
                below = os.open(part, _FOLDER, dir_fd=fd)
            except OSError:
                place = agent_folder / name
                raise ConfigInvalid(
                    f"{str(part)!r} in {str(place)!r} is a link or no folder, and Postroom keeps files there: remove it"
                ) from None
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def remove(agent_folder: Path, name: str) -> None:
    """Remove the file *name*, where it is."""
    parent, _, last = name.rpartition("/")
    with contextlib.suppress(OSError, ConfigInvalid), _open(agent_folder, parent) as folder:
        os.unlink(last, dir_fd=folder)
