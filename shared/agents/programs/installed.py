"""Whether the program of a provider is on this machine, and in which version."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from shared.core import logs

log = logs.get()

_PATIENCE_S = 20.0  # a program of 400 MB may have to come from a cold disk
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_OWN_PLACES = ("~/.local/bin", "~/.claude/local", "~/.npm-global/bin", "/usr/local/bin")


class Installed(NamedTuple):
    """A program on this machine.

    Attributes:
        path: None where it was not found.
        version: such as ``2.1.330``; None where it was not said.
        tested: the version that this release was tested with.
        why_not: why it can't be used, and what to do; None where it can.
    """

    name: str
    path: Path | None
    version: str | None
    tested: str
    why_not: str | None = None

    @property
    def remark(self) -> str | None:
        """A sentence where the version is not the tested one."""
        if self.version is None or self.version == self.tested:
            return None
        is_older = _numbers(self.version) < _numbers(self.tested)
        age = "older" if is_older else "newer"
        return f"{self.name} {self.version} is {age} than {self.tested}, which this release of Postroom was tested with"


def find(name: str, chosen: str | None = None) -> Path | None:
    """The program: *chosen* by an agent's config, else on the PATH, else where its own installer puts it."""
    if chosen is not None:
        return Path(chosen) if os.access(chosen, os.X_OK) and os.path.isfile(chosen) else None  # noqa: PTH113
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *map(os.path.expanduser, _OWN_PLACES)])
    found = shutil.which(name, path=places)
    return Path(found).absolute() if found else None


def look(name: str, tested: str, install: str, chosen: str | None = None) -> Installed:
    """Look for the program, and ask for its version, once in this process: that takes a tenth of a second.

    Args:
        install: the command that installs it.
        chosen: its path in an agent's config.
    """
    path = find(name, chosen)
    if path is None:
        place = f"{chosen!r} is no program" if chosen else f"{name!r} was not found on the PATH"
        return Installed(name, None, None, tested, f"{place}: install it with `{install}`")
    return _ask(name, tested, path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=32)
def _ask(name: str, tested: str, path: Path, _: int) -> Installed:
    said = _version(path)
    if isinstance(said, str):
        return Installed(name, path, None, tested, f"`{path} --version` failed ({said}): install {name} again")
    return Installed(name, path, said[0], tested)


@functools.lru_cache(maxsize=32)
def tell(found: Installed) -> None:
    """Say once in the log of this process which version it starts, and whether that is the tested one."""
    log.info("agent.program_found", program=found.name, version=found.version, tested=found.tested, remark=found.remark)


def _version(path: Path) -> tuple[str] | str:
    """The version, alone in a tuple; or why there is none."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "DISABLE_AUTOUPDATER": "1"}
    try:
        said = subprocess.run(
            [path, "--version"],
            check=False,
            capture_output=True,
            timeout=_PATIENCE_S,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    version = _VERSION.search(said.stdout.decode("utf-8", "replace"))
    if said.returncode != 0 or version is None:
        return said.stderr.decode("utf-8", "replace").strip()[-200:] or f"code {said.returncode}, no version"
    return (version[0],)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
