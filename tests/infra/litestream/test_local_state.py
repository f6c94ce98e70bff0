"""Litestream's local state is trusted only after a good end."""

from pathlib import Path

import pytest

from infra.litestream import local_state
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, transaction
from shared.roster.new_database import prepare_database


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database that Litestream has replicated."""
    path = tmp_path / "postroom.db"
    prepare_database(path)
    local_state.remove_mark(path)
    return path


def test_without_local_state_litestream_may_begin(tmp_path: Path) -> None:
    assert local_state.is_trusted(tmp_path / "postroom.db")
    local_state.mark_good_end(tmp_path / "postroom.db")
    assert [*tmp_path.iterdir()] == []


def test_local_state_is_trusted_after_a_good_end_until_the_next_start(database: Path) -> None:
    assert not local_state.is_trusted(database)
    local_state.mark_good_end(database)
    assert local_state.is_trusted(database)
    local_state.remove_mark(database)
    assert not local_state.is_trusted(database)


def test_removed_local_state_is_trusted(database: Path) -> None:
    local_state.remove(database)
    assert local_state.is_trusted(database)


def test_local_state_is_not_trusted_while_a_process_may_still_write_to_the_log(database: Path) -> None:
    writer = open_connection(database)
    with transaction(writer):
        meta.put(writer, "key", "value")
    local_state.mark_good_end(database)
    assert not local_state.is_trusted(database)
    writer.close()
    local_state.mark_good_end(database)
    assert local_state.is_trusted(database)


def test_local_state_of_a_missing_or_broken_file_is_not_trusted(database: Path) -> None:
    database.write_bytes(b"no database" * 1000)
    local_state.mark_good_end(database)
    assert not local_state.is_trusted(database)
    database.unlink()
    local_state.mark_good_end(database)
    assert not local_state.is_trusted(database)
    assert not database.exists()
