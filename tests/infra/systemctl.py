"""Stands in for systemctl in a namespace without systemd: it starts what the units say, with their environment files.

Programs run as the user of the namespace; a unit that is bound to another is stopped before that one.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

UNITS = Path("/etc/systemd/system")
RUNNING = Path("/run/units")
_STOPS_WITHIN_S = 30


def _settings(name: str) -> tuple[str, dict[str, list[str]]]:
    unit = name.removesuffix(".service")
    family, _, instance = unit.partition("@")
    file = UNITS / (f"{family}@.service" if instance else f"{unit}.service")
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", file.read_text(), re.MULTILINE):
        found.setdefault(key, []).append(value.replace("%i", instance))
    return unit, found


def _variables(settings: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    yield from (each.split("=", 1) for each in settings.get("Environment", []))  # type: ignore[misc]
    for file in settings.get("EnvironmentFile", []):
        for line in Path(file).read_text().splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.partition("=")
                yield name, value


def start(name: str) -> None:
    """Start the program of the unit, unless it runs."""
    unit, settings = _settings(name)
    mark = RUNNING / unit
    if mark.exists():
        return
    for folder in settings.get("RuntimeDirectory", []):
        Path("/run", folder).mkdir(exist_ok=True, mode=0o700)
    given = dict(_variables(settings))
    words = [
        part
        for word in shlex.split(settings["ExecStart"][0])
        for part in (given["ARGUMENTS"].split() if word == "$ARGUMENTS" else [word])
    ]
    with Path(f"/run/{unit}.log").open("ab") as log:
        program = subprocess.Popen(
            words,
            cwd=settings["WorkingDirectory"][0],
            env={"PATH": os.environ["PATH"], **given},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    mark.write_text(str(program.pid))


def stop(name: str) -> None:
    """Send SIGTERM, and wait until the program has ended."""
    mark = RUNNING / name.removesuffix(".service")
    if not mark.exists():
        return
    pid = int(mark.read_text())
    mark.unlink()
    deadline = time.monotonic() + _STOPS_WITHIN_S
    try:
        os.kill(pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(0.02)
    except ProcessLookupError:
        return
    sys.exit(f"{name} does not end")


def main(verb: str, *names: str) -> None:
    """Do what install.sh asks for."""
    RUNNING.mkdir(exist_ok=True, parents=True)
    for name in names if verb in ("start", "stop") else ():
        (start if verb == "start" else stop)(name)
    if verb == "enable":
        for name in names[1:]:
            _settings(name)  # a unit that is not there is an error


if __name__ == "__main__":
    main(*sys.argv[1:])
