"""The faults that somebody has set in an emulator, by ``emulator fault add``: a file of the folder of sockets.

Only an emulator writes the file, and removes it when it starts. What fails by a fault is no news then, so whatever
tells of health tells of the faults too. The processes that have to fail read their part of the same file.
"""

import json
from pathlib import Path
from typing import Any

_FILE = "faults.json"
BEGIN = "a fault is set by hand: "  # of each sentence


def path_in(run: Path) -> Path:
    """The file in the folder of sockets."""
    return run / _FILE


def read(path: Path, *, now_ms: int) -> list[dict[str, Any]]:
    """The faults that are not over, as the emulator wrote them; none where the file is not there."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return []
    return [each for each in found if each["until_ms"] is None or each["until_ms"] > now_ms]


def sentences(run: Path, *, now_ms: int) -> list[str]:
    """A sentence for each of them."""
    return [sentence(each["target"], each["sentence"]) for each in read(path_in(run), now_ms=now_ms)]


def sentence(target: str, what: str) -> str:
    """The sentence about a fault of *target*."""
    return f"{BEGIN}{target} {what}. To lift it: emulator fault lift {target}"
