"""Deletes the files of agents that are over: of the inboxes and outboxes, and the copies of what was sent.

A file of an inbox goes with its message, at the end of its time, or where the agent's files hold too much: then the
oldest first. A message that waits or runs keeps its files. One that is run again later gets its files anew.

Programs write there too. So no link is followed, and where a program lies about a file's age the limit of bytes holds.
"""

import contextlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from shutil import rmtree
from typing import NamedTuple

import apsw

from shared.agents import own_files, session_files
from shared.agents.base import SESSIONS, session_folder
from shared.agents.programs import disk
from shared.core import logs
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.queue import mailbox, messages
from shared.db.roster import agents
from shared.db.roster.agents import Agent

log = logs.get()

_MOST_SENT = 250  # folders of one sweep


class BoxLimits(NamedTuple):
    """How old an agent's files may be, and how much they may hold together."""

    older_than_ms: int
    most_bytes: int


class KeptFile(NamedTuple):
    """A file of an inbox or, where it has no *message*, of an outbox. *key*: what it is known by in its folder."""

    written_ms: int
    size: int
    message: str | None
    key: tuple[int, int, int]


def delete_old(conn: apsw.Connection, settings: Settings, *, now_ms: int) -> int:
    """Delete old and surplus files of every agent's boxes; how many. A folder that can't be read is logged."""
    count = 0
    for agent in agents.every_with_retired(conn):
        try:
            count += _delete_of(
                conn, settings.agents_dir / (agent.folder or agent.id), _limits(agent, settings, now_ms)
            )
        except (OSError, RecursionError):  # a program may have made a folder in a folder without end
            log.exception("sweep.files_not_deleted", agent=agent.id)
    return count


def _limits(agent: Agent, settings: Settings, now_ms: int) -> BoxLimits:
    kept_ms = agent.file_retention_ms or settings.file_retention_ms
    return BoxLimits(now_ms - kept_ms, (agent.files_limit_mb or settings.files_limit_mb) * 1024**2)


def _delete_of(conn: apsw.Connection, folder: Path, limits: BoxLimits) -> int:
    boxes = list(_boxes(folder))
    files = [file for box in boxes for file in _files(folder, box)]
    statuses = messages.statuses(conn, {file.message for file in files if file.message is not None})
    doomed = {file.key for file in over(files, statuses, limits)}
    for box in boxes if doomed else ():
        _delete(folder, box, doomed)
    return len(doomed)


def over(files: Collection[KeptFile], statuses: Mapping[str, str], limits: BoxLimits) -> list[KeptFile]:
    """The files to delete. Pure.

    Args:
        statuses: of the messages that are still there.
    """
    found: list[KeptFile] = []
    left = sum(file.size for file in files)
    for file in sorted(files, key=lambda file: file.written_ms):
        status = "" if file.message is None else statuses.get(file.message, "gone")
        if status in ("pending", "processing"):
            continue
        if status == "gone" or file.written_ms < limits.older_than_ms or left > limits.most_bytes:
            found.append(file)
            left -= file.size
    return found


def _boxes(folder: Path) -> Iterator[str]:
    """The inboxes and outboxes below the agent's folder."""
    sessions: list[str] = []
    no_turn_yet = contextlib.suppress(FileNotFoundError)
    with no_turn_yet, own_files.folder(folder, SESSIONS, make=False) as opened, os.scandir(opened) as found:
        sessions = [each.name for each in found]
    for session in sessions:
        for box in (session_files.INBOX, session_files.OUTBOX):
            yield f"{session_folder(session)}/{box}"


def _walk(folder: Path, box: str, *, from_below: bool = False) -> Iterator[tuple[str, list[str], list[str], int]]:
    """As ``os.fwalk``, through a box; nothing where it is missing or a link."""
    missing = contextlib.suppress(FileNotFoundError, NotADirectoryError)
    with missing, own_files.folder(folder, box, make=False) as opened:
        yield from os.fwalk(".", topdown=not from_below, dir_fd=opened)


def _files(folder: Path, box: str) -> Iterator[KeptFile]:
    is_inbox = box.endswith(f"/{session_files.INBOX}")
    for place, below, names, fd in _walk(folder, box):
        for name in below:
            disk.make_readable(name, fd)
        message = (*place.split("/"), "")[1] if is_inbox else None
        for name in names:
            found = _look(name, fd)
            if found is not None:
                yield KeptFile(_written_ms(found), disk.size_of(found), message, _key(found))


def _delete(folder: Path, box: str, doomed: Collection[tuple[int, int, int]]) -> None:
    """Delete these files, and the folders that are empty then."""
    emptied: set[str] = set()
    for place, below, names, fd in _walk(folder, box, from_below=True):
        for name in names:
            found = _look(name, fd)
            if found is not None and _key(found) in doomed:
                os.unlink(name, dir_fd=fd)
                emptied.add(place)
        for name in below:
            if f"{place}/{name}" in emptied:
                with contextlib.suppress(OSError):  # it has another file
                    os.rmdir(name, dir_fd=fd)
                    emptied.add(place)


def _look(name: str, folder: int) -> os.stat_result | None:
    """None: it has just gone, or is a folder."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return None if stat.S_ISDIR(found.st_mode) else found


def _written_ms(found: os.stat_result) -> int:
    return clock.of_machine(found.st_mtime_ns // 1_000_000)


def _key(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_dev, found.st_ino, found.st_mtime_ns


def delete_sent(conn: apsw.Connection, store: Path, *, older_than_ms: int) -> int:
    """Delete old folders of copies of what agents sent (``shared/turns/run/answers``): the number of folders.

    What an agent passed on, and the other one has not had, stays.

    Raises:
        OSError: a folder can't be read or deleted.
    """
    old = [each for each in store.iterdir() if _written_ms(each.stat()) < older_than_ms] if store.is_dir() else []
    awaited = {each.partition("/")[0] for each in mailbox.waiting_files(conn)} if old else set()
    doomed = [folder for folder in old if folder.name not in awaited][:_MOST_SENT]
    for folder in doomed:
        rmtree(folder)
    return len(doomed)
