"""What Litestream keeps beside the database is believed after an end in good order only."""

from pathlib import Path

import pytest

from infra import notes
from shared.db import meta
from shared.db.connection import open_connection, transaction
from shared.db.migrate import migrate


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """One that Litestream has replicated."""
    path = tmp_path / "postroom.db"
    migrate(path)
    notes.open_again(path)
    return path


def test_where_litestream_never_was_it_may_begin(tmp_path: Path) -> None:
    assert notes.are_good(tmp_path / "postroom.db")
    notes.vouch(tmp_path / "postroom.db")
    assert [*tmp_path.iterdir()] == []


def test_they_are_good_once_vouched_for_until_the_next_start(database: Path) -> None:
    assert not notes.are_good(database)
    notes.vouch(database)
    assert notes.are_good(database)
    notes.open_again(database)
    assert not notes.are_good(database)


def test_they_are_good_when_forgotten(database: Path) -> None:
    notes.forget(database)
    assert notes.are_good(database)


def test_they_are_not_good_while_somebody_may_still_write_into_the_log_of_that_time(database: Path) -> None:
    writer = open_connection(database)
    with transaction(writer):
        meta.put(writer, "key", "value")
    notes.vouch(database)
    assert not notes.are_good(database)
    writer.close()
    notes.vouch(database)
    assert notes.are_good(database)


def test_nobody_vouches_for_the_notes_of_a_file_that_is_gone_or_broken(database: Path) -> None:
    database.write_bytes(b"no database" * 1000)
    notes.vouch(database)
    assert not notes.are_good(database)
    database.unlink()
    notes.vouch(database)
    assert not notes.are_good(database)
    assert not database.exists()
