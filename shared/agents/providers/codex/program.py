"""Where codex is on this machine. npm installs a script for node; the program itself is in a package beside it."""

import functools
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from shared.agents.programs import installed
from shared.agents.programs.installed import Installed
from shared.core import logs

log = logs.get()

TESTED = "0.169.0"
INSTALL = f"npm install -g @openai/codex@{TESTED}"

_PATIENCE_S = 20.0
_TRIPLES = {"x86_64": ("x64", "x86_64-unknown-linux-musl"), "aarch64": ("arm64", "aarch64-unknown-linux-musl")}


class CodexProgram(NamedTuple):
    """The program.

    Attributes:
        path: what is started.
        readable: what a leash must show of it.
        search: a folder of helpers for its PATH.
    """

    path: Path
    readable: tuple[Path, ...]
    search: Path | None


def look(chosen: str | None = None) -> Installed:
    """Whether codex is installed, and in which version."""
    return installed.look("codex", TESTED, INSTALL, chosen)


def located(path: Path) -> CodexProgram:
    """The program behind *path*, with its helpers: of npm's package, or *path* itself where nothing is beside it."""
    real = path.resolve()
    is_script = real.suffix == ".js"
    for vendor in _vendors(real.parent.parent) if is_script else _own_vendor(real):
        program = vendor / "bin" / "codex"
        if os.access(program, os.X_OK):
            helpers = vendor / "codex-path"
            return CodexProgram(program, (vendor,), helpers if helpers.is_dir() else None)
    return CodexProgram(path, (path, real.parent.parent), None) if is_script else CodexProgram(real, (real,), None)


def _own_vendor(program: Path) -> list[Path]:
    """The folder of *program*'s package, where it lies in one."""
    vendor = program.parent.parent
    return [vendor] if (vendor / "codex-package.json").is_file() else []


def _vendors(package: Path) -> Iterator[Path]:
    """The folders where a version may keep the program of this machine."""
    arch, triple = _TRIPLES.get(platform.machine(), ("", ""))
    for folder in (package.parent, package / "node_modules" / "@openai"):
        yield folder / f"codex-linux-{arch}" / "vendor" / triple
    yield package / "vendor" / triple


def has_app_server(program: CodexProgram) -> bool:
    """Whether ``codex app-server`` starts: tried once for each file of this process, in a third of a second."""
    return _try(program.path, program.path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _try(path: Path, _: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="postroom-codex-") as home:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "CODEX_HOME": home}
        try:
            tried = subprocess.run(
                [path, "app-server"],
                check=False,
                capture_output=True,
                timeout=_PATIENCE_S,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=home,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            log.warning("codex.no_app_server", reason=str(error))
            return False
    if tried.returncode != 0:
        log.warning("codex.no_app_server", reason=tried.stderr.decode("utf-8", "replace").strip()[-200:])
    return tried.returncode == 0
