"""Replication shows nothing to other users, under the widest umask. A replica in a folder is the whole database."""

import asyncio
import os
from pathlib import Path

import pytest

from infra.litestream.restored_files import restore
from tests.infra.litestream.supervised import ENVIRONMENT, Replicating


@pytest.fixture(autouse=True)
def _widest_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def shown_to_others(folder: Path) -> list[str]:
    """What in the folder other users may read, write or enter."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.lstat().st_mode & 0o077]


def test_replicating_and_restoring_show_nothing_to_other_users(tmp_path):
    running = Replicating(tmp_path / "data")
    try:
        running.write("key")
        running.restored()
        assert len([*tmp_path.rglob("*.ltx")]) > 1
        assert {"litestream.sock", "litestream.sock.permit"} <= {path.name for path in tmp_path.rglob("*")}
        assert shown_to_others(tmp_path) == []

        prefix = f"{running.environment['POSTROOM_REPLICA_URL']}/{running.prefix}"
        assert asyncio.run(restore(prefix, tmp_path / "data" / "as-the-emulator-does.db", ENVIRONMENT, 60))
        assert shown_to_others(tmp_path) == []
    finally:
        running.close()
