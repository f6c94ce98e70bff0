"""The files of an export: what lies in the agents' folders, and the copies of what agents sent."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from emulator.base.errors import InvalidInput
from emulator.moving.source import UNREADABLE, FoundFile, SourceFolder
from shared.core import content
from shared.db.views.portable import TABLES

_SESSIONS, _BOXES = "sessions", ("inbox", "outbox")


class FilesWanted(NamedTuple):
    """*folders*: of the agents. *messages*, *sent*: only the files of these messages and answers; None: all."""

    folders: list[str]
    messages: frozenset[str] | None = None
    sent: frozenset[str] = frozenset()


def wanted(conn: apsw.Connection, person: Mapping[str, str] | None) -> FilesWanted:
    """All files, or those that the person sent and was sent."""
    folders = [str(name) for (name,) in conn.execute("SELECT DISTINCT coalesce(folder, id) FROM agents ORDER BY 1")]
    if person is None:
        return FilesWanted(folders)
    theirs = {table.name: table.person for table in TABLES}
    messages = _texts(conn, f"SELECT message_id FROM messages WHERE {theirs['messages']}", person)  # noqa: S608
    answers = _texts(conn, f"SELECT files FROM responses WHERE {theirs['responses']}", person)  # noqa: S608
    sent = ("/".join(path.split("/")[-2:]) for files in answers for path in content.file_paths(files))
    return FilesWanted(folders, frozenset(messages), frozenset(sent))


def _texts(conn: apsw.Connection, sql: str, person: Mapping[str, str]) -> list[str]:
    return [text for (text,) in conn.execute(sql, person) if text]


def copy(new: Path, agents: Path, store: Path, of: FilesWanted) -> Iterator[FoundFile]:
    """Copy the plain files into the new folder: the path of each there, or why it was not copied.

    An agent's folder may be a link of the operator's. No link in it is followed.
    """
    seen: set[str] = set()
    for folder in of.folders:
        source = SourceFolder(agents / folder)
        for file in source.files("."):
            path = f"{folder}/{file.path}".rstrip("/")
            if path not in seen and _is_taken(path, of, is_read=not file.problem):
                seen.add(path)
                yield from _copied(source, file, new, f"agents/{path}")
    source = SourceFolder(store)
    for file in source.files("."):
        if of.messages is None or file.path in of.sent:
            yield from _copied(source, file, new, f"files/{file.path}".rstrip("/"))


def _is_taken(path: str, of: FilesWanted, *, is_read: bool) -> bool:
    """Of a session's folder only its inbox and its outbox: the rest is what the agent's program keeps for itself.

    *is_read*: it is a file; else the path may be that of a folder above it.
    """
    below = [path.removeprefix(f"{folder}/").split("/") for folder in of.folders if path.startswith(f"{folder}/")]
    rest = next((parts[2:] for parts in below if parts[0] == _SESSIONS), None)
    if of.messages is not None:
        return rest is not None and len(rest) > 1 + is_read and rest[0] == "inbox" and rest[1] in of.messages
    if not rest:
        return rest is None or not is_read
    return rest[0] in _BOXES and len(rest) > is_read


def _copied(source: SourceFolder, file: FoundFile, new: Path, path: str) -> Iterator[FoundFile]:
    if file.problem:
        yield file._replace(path=path)
        return
    target = new / path
    for folder in reversed(target.relative_to(new).parents[:-1]):
        (new / folder).mkdir(mode=0o700, exist_ok=True)
    try:
        with new_file(target) as out:
            is_there = source.copy(file.path, out)
    except InvalidInput:
        target.unlink()
        yield FoundFile(path, file.size, UNREADABLE)
        return
    if is_there:
        yield FoundFile(path, file.size)
    else:  # it has just gone
        target.unlink()


@contextmanager
def new_file(path: Path) -> Iterator[Any]:
    """A new file that only its owner can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        yield file
