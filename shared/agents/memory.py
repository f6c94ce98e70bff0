"""What an agent knows in a turn beside its instructions: ``MEMORY.md`` of its folder, and what it remembered by a tool.

No turn writes the file: on the leash, what lies in the agent's folder itself is read-only. The lines are rows.
"""

from pathlib import Path
from typing import NamedTuple

from shared.agents import own_files

NAME = "MEMORY.md"
MOST_BYTES = 16_000  # as long as some thousand words: more would push out what a turn is about


class MemoryFile(NamedTuple):
    """What a prompt has of the file. *left_out*: the bytes at its end that the prompt has not; 0: it has all."""

    text: str = ""
    left_out: int = 0


NOTHING = MemoryFile()


class RememberedLine(NamedTuple):
    """A line that the agent wrote in an earlier turn. *by*: who had written to it then."""

    name: str
    text: str
    by: str
    at_ms: int


def read(agent_folder: Path) -> MemoryFile:
    """The beginning of the file, whole lines; nothing where there is no such plain file."""
    found = own_files.read_beginning(agent_folder, NAME, most_bytes=MOST_BYTES)
    if found is None:
        return NOTHING
    beginning, size = found
    if size > len(beginning) and (end := beginning.rfind(b"\n")) > 0:
        beginning = beginning[:end]
    return MemoryFile(beginning.decode("utf-8", "ignore").strip(), size - len(beginning))
