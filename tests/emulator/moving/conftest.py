"""Folders that NanoClaw and TinyAGI wrote themselves, old and new, with invented names and secrets."""

import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from emulator.moving.options import MoveOptions

SAMPLES = Path(__file__).parent / "samples"
OPTIONS = MoveOptions(datetime(2026, 11, 23, tzinfo=UTC))
Unpack = Callable[[str], Path]


@pytest.fixture
def unpack(tmp_path: Path) -> Unpack:
    """Unpacks a sample; returns the folder that a person would name."""

    def unpacked(name: str) -> Path:
        with tarfile.open(SAMPLES / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path, filter="fully_trusted")  # noqa: S202 - our own
        return tmp_path / ("nanoclaw" if name.startswith("nanoclaw") else "home/user")

    return unpacked
