"""What every child process gets of the developer's shell: a few named variables."""

from collections.abc import Mapping

ALWAYS = ("PATH", "HOME", "LANG", "TMPDIR", "TZ")


def of_shell(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of the shell that every child gets."""
    return {name: environ[name] for name in ALWAYS if name in environ} | {"PYTHONUNBUFFERED": "1"}
