"""The files of an export: what lies in the agents' folders, and the copies of what agents sent."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from emulator.moving.source import SourceFolder
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


def copy(new: Path, agents: Path, store: Path, of: FilesWanted) -> Iterator[str]:
    """Copy the plain files into the new folder; the path of each there. No link is followed."""
    seen: set[str] = set()
    for folder in of.folders:
        for path in (f"{folder}/{file.path}" for file in _files(agents, folder)):
            if path not in seen and _is_taken(path, of):
                seen.add(path)
                yield from _copied(SourceFolder(agents), path, new, "agents")
    for file in _files(store, "."):
        if of.messages is None or file.path in of.sent:
            yield from _copied(SourceFolder(store), file.path, new, "files")


def _files(root: Path, folder: str) -> Iterator[Any]:
    return SourceFolder(root).files(folder) if root.is_dir() else iter(())


def _is_taken(path: str, of: FilesWanted) -> bool:
    """Of a session's folder only its inbox and its outbox: the rest is what the agent's program keeps for itself."""
    below = [path.removeprefix(f"{folder}/").split("/") for folder in of.folders if path.startswith(f"{folder}/")]
    in_session = next((parts for parts in below if parts[0] == _SESSIONS), None)
    if of.messages is not None:
        is_inbox = in_session is not None and len(in_session) > 4 and in_session[2] == "inbox"
        return is_inbox and in_session is not None and in_session[3] in of.messages
    return in_session is None or (len(in_session) > 3 and in_session[2] in _BOXES)


def _copied(source: SourceFolder, path: str, new: Path, under: str) -> Iterator[str]:
    found = source.read(path)
    if found is None:  # it has just gone
        return
    target = new / under / path
    for folder in reversed(target.relative_to(new).parents[:-1]):
        (new / folder).mkdir(mode=0o700, exist_ok=True)
    with new_file(target) as file:
        file.write(found)
    yield f"{under}/{path}"


@contextmanager
def new_file(path: Path) -> Iterator[Any]:
    """A new file that only its owner can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        yield file
