"""The skills of an agent: folders ``skills/NAME`` below its own, each with a ``SKILL.md`` on how to do a kind of work.

Its first lines, between two of ``---``, have the skill's ``description`` for those who choose.

Source: agentskills.io/specification.
"""

import os
import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from shared.agents import own_files
from shared.core.errors import NotFound

FOLDER, FILE = "skills", "SKILL.md"
MOST = 50  # each is a line of every prompt
LARGEST_BYTES = 100_000  # of a file that an agent reads by its tool

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEAD_BYTES = 4096
_LONGEST = 300  # characters of a description
_ENTRY = re.compile(r"^description:[ \t]*(?P<first>.*)$(?P<more>(?:\n[ \t]+.*)*)", re.MULTILINE)
_FOLDED = (">", ">-", "|", "|-")


class Skill(NamedTuple):
    """A skill. *description*: one line; empty where its file says none."""

    name: str
    description: str

    @property
    def path(self) -> str:
        """Its file, below the agent's folder."""
        return f"{FOLDER}/{self.name}/{FILE}"


def of_agent(agent_folder: Path) -> tuple[Skill, ...]:
    """The skills of the agent by name: the first ``MOST``, and none where there is no such folder."""
    try:
        with own_files.folder(agent_folder, FOLDER, make=False) as opened, os.scandir(opened) as entries:
            names = sorted(each.name for each in entries if _NAME.fullmatch(each.name))
    except OSError:
        return ()
    found: list[Skill] = []
    for name in names:
        head = own_files.read_beginning(agent_folder, f"{FOLDER}/{name}/{FILE}", most_bytes=_HEAD_BYTES)
        if head is not None and len(found) < MOST:
            found.append(Skill(name, description(head[0].decode("utf-8", "ignore"))))
    return tuple(found)


def description(text: str) -> str:
    """The description in the first lines of a ``SKILL.md``, on one line. Pure."""
    if not text.startswith("---"):
        return ""
    entry = _ENTRY.search(text.removeprefix("---").partition("\n---")[0])
    if entry is None:
        return ""
    first = entry["first"].strip()
    words = " ".join([*([] if first in _FOLDED else [first]), *entry["more"].split()])
    if len(words) > 1 and words[0] == words[-1] and words[0] in "\"'":
        words = words[1:-1]
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


def read(agent_folder: Path, name: str, file: str = FILE) -> str:
    """A text file of the skill.

    Args:
        file: below the skill's folder.

    Raises:
        NotFound: there is no such skill or file, or it is too large; the message lists what there is.
    """
    known = [each.name for each in of_agent(agent_folder)]
    if name not in known:
        raise NotFound(f"you have no skill {name[:64]!r}; your skills: {', '.join(known) or 'none'}")
    path = PurePosixPath(file)
    content = None
    if not path.is_absolute() and ".." not in path.parts and "\0" not in file:
        content = own_files.read(agent_folder, f"{FOLDER}/{name}/{path}", most_bytes=LARGEST_BYTES)
    if content is None:
        raise NotFound(f"skill {name!r} has no file {file[:200]!r} of at most {LARGEST_BYTES} bytes")
    return content.decode("utf-8", "replace")
