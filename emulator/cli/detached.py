"""``emulator run --detach``: the same emulator in a process of its own, which outlives the terminal."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from emulator.base.errors import ExitCode
from emulator.base.hints import command_line
from emulator.base.state import StateFolder, find_running
from emulator.cli.run import fail, say

_READY_LIMIT_S = 60.0
_LOOK_EVERY_S = 0.05
_OPTIONS = ("--detach", "-d")


def run_detached(folder: StateFolder, *, is_kept: bool) -> int:
    """Start ``emulator run`` with the other options of this command line; returns 0 when it is ready, else its code.

    Its own log file has all that it prints.
    """
    if not is_kept:
        fail("--detach needs a state folder by which `emulator stop` finds it: leave out --ephemeral", ExitCode.USAGE)
    arguments = [each for each in sys.argv[1:] if each not in _OPTIONS]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "emulator", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        deadline = time.monotonic() + _READY_LIMIT_S
        while time.monotonic() < deadline:
            code = process.poll()
            if code is not None:
                errors.seek(0)
                sys.stderr.write(errors.read().decode("utf-8", "replace"))
                return code or ExitCode.FAILED
            instance = find_running(folder) or {}
            if instance.get("pid") == process.pid:
                _print(instance, folder)
                return 0
            time.sleep(_LOOK_EVERY_S)
    say(
        f"emulator[{process.pid}] is not ready after {_READY_LIMIT_S:.0f} s and continues to start; "
        f"to see why: `{command_line('logs', folder.path)}`"
    )
    return ExitCode.TRY_AGAIN


def _print(instance: Mapping[str, Any], folder: StateFolder) -> None:
    print(f"emulator[{instance['pid']}] is ready in the background")  # noqa: T201
    for name in ("gateway", "chat", "api"):
        print(f"  {name:<8} {instance['urls'][name]}")  # noqa: T201
    print(f"  stop it  {command_line('stop', folder.path)}")  # noqa: T201
