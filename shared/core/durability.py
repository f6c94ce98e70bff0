"""What a 2xx promises, by channel: the row is on this disk, or it is in the replica as well."""

import os
from pathlib import Path
from typing import Literal

Durability = Literal["local", "replicated"]
EVERY_OTHER = "*"
_WORDS: dict[str, Durability] = {"local": "local", "replicated": "replicated"}


def sync(path: Path) -> None:
    """Return when the file's content, or the names in the folder, are on the disk.

    Not for a database that this process has open: SQLite would lose its locks on it.

    Raises:
        OSError: the disk refuses it.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def needs_replica(text: str) -> bool:
    """Whether work stops while the replica is behind: some channel waits for it by ``POSTROOM_DURABILITY``."""
    return "replicated" in text


def behind(reason: str, text: str) -> str:
    """The sentence about a replica that lacks commits, with what follows by ``POSTROOM_DURABILITY``."""
    if needs_replica(text):
        return f"replication is behind: {reason}. What waits for it by POSTROOM_DURABILITY={text} is refused until then"
    return f"replication is behind: {reason} (the rows are safe on this disk, and follow when the bucket answers)"


def parse_levels(text: str) -> dict[str, Durability]:
    """The level of each channel, from ``POSTROOM_DURABILITY``; ``*`` stands for every channel that is not named.

    Raises:
        ValueError: the text has another form; the message shows the right one.
    """
    found: dict[str, Durability] = {}
    for part in text.split(","):
        name, equals, word = (piece.strip() for piece in part.rpartition("="))
        channel = name if equals else EVERY_OTHER
        if not channel or channel in found or word not in _WORDS:
            raise ValueError(
                "write local or replicated, then the channels that differ, as in local,telegram=replicated"
            )
        found[channel] = _WORDS[word]
    found.setdefault(EVERY_OTHER, "local")
    return found
