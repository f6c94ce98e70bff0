"""Whether a process of a function went away alone, or with all that ran it."""

import os
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STARTED = 19  # of the fields after the name in /proc/PID/stat


def identity(epoch: str | None) -> str:
    """A name for what this process stands on: the history of the database, the boot of the machine, the parent process.

    A process that starts in the place of another one has the same name only if nothing but that one went away.

    Args:
        epoch: of the database; another one after each restore.
    """
    return f"{epoch} {_text(_BOOT).strip()} {_parent()}"


def _parent() -> str:
    """The parent and when it began; a process id alone is given again."""
    pid = os.getppid()
    after_name = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return f"{pid}:{after_name[_STARTED]}" if len(after_name) > _STARTED else str(pid)


def _text(path: Path) -> str:
    """What stands there; empty where the system has no such file."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
