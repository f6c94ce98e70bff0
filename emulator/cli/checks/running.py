"""Whose settings the doctor speaks of: those of the running system, where one runs, and not of the doctor's shell.

The kernel tells the environment of a process to its own user.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from emulator.base import environment
from emulator.base.environment import EnvSetting
from emulator.base.state import StateFolder, find_running
from infra.template import deployment
from infra.template.cloudformation import TemplateInvalid
from shared.turns.gateway.upstreams import GatewaySettings

_PROC = Path("/proc")
_RUNNER = b"infra.runner"
_LAST = "dispatch"  # it has the settings of agents and models


class System(NamedTuple):
    """The system that the doctor looks at.

    Attributes:
        name: of the process whose settings these are; None: none runs, or it can't be read, so they are this shell's.
        environ: of that process.
        project: its working directory, where ``.env`` is.
    """

    name: str | None
    environ: Mapping[str, str]
    project: Path


def find(state: StateFolder, environ: Mapping[str, str]) -> System:
    """The emulator of *state*; or the functions of the installation whose database ``POSTROOM_DB`` names."""
    own = environ.get("POSTROOM_DB")
    if own is not None:
        return _of_runner(Path(own).absolute(), environ)
    pid = (find_running(state) or {}).get("pid")
    if pid is not None and (found := _read(pid)) is not None:
        return System(f"emulator[{pid}]", found[0], found[1])
    return System(None, environ, Path.cwd())


def settings_of_emulator(system: System, files: list[EnvSetting]) -> dict[str, str]:
    """The environment that ``emulator run`` gives to the functions there."""
    template: dict[str, str] = {}
    of_emulator: dict[str, str] = {}
    with suppress(TemplateInvalid, OSError):  # without one, there is nothing to add
        found = deployment.load(system.project / "template.yaml")
        template = {name: value for spec in found.functions for name, value in spec.environment.items()}
        of_emulator = found.emulator_environment
    of_gateway = (f"POSTROOM_{name.upper()}" for name in GatewaySettings.model_fields)
    shell = (*environment.FROM_SHELL, *of_gateway)
    return environment.for_function(system.environ, template, of_emulator, files, {}, shell)


@contextmanager
def in_environment(environ: Mapping[str, str]) -> Iterator[None]:
    """This process has that environment, and no other variable, for a while."""
    before, chosen = dict(os.environ), dict(environ)  # *environ* may be the present one
    try:
        os.environ.clear()
        os.environ.update(chosen)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _of_runner(database: Path, environ: Mapping[str, str]) -> System:
    """The settings of all functions that serve the database, for each may have some of its own."""
    found: dict[str, tuple[int, dict[str, str], Path]] = {}
    for pid in (int(each.name) for each in _PROC.iterdir() if each.name.isdigit()):
        with suppress(OSError, ValueError, IndexError):
            words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
            function = words[words.index(_RUNNER) + 1].decode()
            read = _read(pid)
            if read is not None and read[1] / read[0].get("POSTROOM_DB", "") == database:
                found[function] = (pid, *read)
    if not found:
        return System(None, environ, Path.cwd())
    named = sorted(found.items(), key=lambda each: each[0] == _LAST)
    pid, _, project = named[-1][1]
    merged = {name: value for _, (_, of_one, _) in named for name, value in of_one.items()}
    return System(f"{named[-1][0]}[{pid}]", merged, project)


def _read(pid: int) -> tuple[dict[str, str], Path] | None:
    """The environment and the working directory of a process; None where it is gone, or another user's."""
    try:
        pairs = (_PROC / str(pid) / "environ").read_bytes().decode("utf-8", "replace").split("\0")
        project = (_PROC / str(pid) / "cwd").readlink()
    except OSError:
        return None
    return dict(pair.partition("=")[::2] for pair in pairs if "=" in pair), project
