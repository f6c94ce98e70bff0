"""What a program on the leash finds at the place of its agent's folder. Its HOME and working directory are there::

    AGENT/                    ``homes/SESSION`` of the agent's folder: what this session wrote, and no other reads
    AGENT/agent.py, docs …    the files and folders that lie in the agent's folder itself, read-only
    AGENT/shared              one for all sessions; read-only where the agent's config says so
    AGENT/sessions/SESSION    the inbox, the outbox, and what the program remembers of this conversation

So nothing that a program loads by itself, from its HOME or its working directory, was written in another session. What
is hidden in the agent's folder (``.local``, ``.npmrc``) is not shown: programs load such files, and an earlier release
let every session write them.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from shared.agents import own_files
from shared.agents.base import Turn, session_folder
from shared.agents.programs.containment import ProgramCommand, SessionHome
from shared.core import logs

log = logs.get()

SharedFolder = Literal["write", "read"]

HOMES, SHARED = "homes", "shared"
_OURS = (HOMES, SHARED, session_folder("").rstrip("/"))
_MOST_SHOWN = 500  # each is a mount


def at_home(command: ProgramCommand, turn: Turn, shared: SharedFolder) -> ProgramCommand:
    """*command*, in the home of the turn's session.

    Raises:
        ConfigInvalid: a link, or something that is no folder, stands in the way.
        OSError: a folder can't be made.
    """
    own = own_files.make_folder(turn.folder, session_folder(turn.session))
    home = own_files.make_folder(turn.folder, f"{HOMES}/{turn.session}")
    common = own_files.make_folder(turn.folder, SHARED)
    shown = tuple(_shown(turn, home))
    place = SessionHome(home, shown, common, may_write_shared=shared == "write")
    return replace(command, session=turn.place, session_folder=own, home=place)


def _shown(turn: Turn, home: Path) -> Iterator[tuple[str, int]]:
    """The names and numbers of what is shown of the agent's folder: plain files and folders, no links."""
    with os.scandir(turn.folder) as found:
        plain = (each for each in found if not each.name.startswith(".") and each.name not in _OURS)
        entries = sorted((each for each in plain if _is_free(each, home / each.name)), key=lambda each: each.name)
    if len(entries) > _MOST_SHOWN:
        log.warning("agent.folder_too_full", agent=turn.agent, entries=len(entries), shown=_MOST_SHOWN)
    for each in entries[:_MOST_SHOWN]:
        yield each.name, each.inode()


def _is_free(entry: "os.DirEntry[str]", place: Path) -> bool:
    """Whether *entry* can be mounted at *place* in the home. A link that the session made there gives way."""
    if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
        return False
    try:
        there = place.lstat().st_mode
    except FileNotFoundError:
        return True
    if stat.S_ISLNK(there):
        place.unlink()
        return True
    return stat.S_ISDIR(there) == entry.is_dir(follow_symlinks=False)
