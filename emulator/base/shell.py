"""What the developer's shell decides: a few variables of every child process, and which signals end a command."""

import signal
from collections.abc import Mapping

ALWAYS = ("PATH", "HOME", "LANG", "TMPDIR", "TZ")


def of_shell(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of the shell that every child gets."""
    return {name: environ[name] for name in ALWAYS if name in environ} | {"PYTHONUNBUFFERED": "1"}


def ending_signals() -> list[signal.Signals]:
    """Those that ask a command to stop; under nohup, which lets us ignore it, no hangup."""
    hangup = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    return [signal.SIGINT, signal.SIGTERM, *hangup]
