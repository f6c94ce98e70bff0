"""What a dead writer had, against what the bucket restores to: real Litestream, a folder as the bucket."""

import os
import subprocess

import pytest

from infra.litestream.drill import DeadWriter, DrillRefused, check_room, present_prefix
from shared.db.engine import restore_proofs
from shared.db.engine.connection import rows, transaction
from shared.db.replica.litestream_program import environment_for, program
from tests.support import NOW

ENVIRON = {"PATH": os.environ["PATH"]}
POSITION = 16


def write(conn, number):
    with transaction(conn):
        rows(
            conn,
            "INSERT INTO events (type, data, created_at) VALUES ('message_done', '{}', :at)",
            {"at": NOW + number * 100},
        )


@pytest.fixture
def replica(db, conn, tmp_path):
    """A replica of a database with two events."""
    for number in range(2):
        write(conn, number)
    url = f"file://{tmp_path}/replica"
    done = subprocess.run(
        [program(), "replicate", "-once", str(db), url],
        env=environment_for(ENVIRON), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return url


def drill(db, replica, folder):
    folder.mkdir()
    prefix = present_prefix(replica, ENVIRON)
    writer = DeadWriter(db)
    try:
        return writer.restore_and_compare(replica, prefix, folder, ENVIRON)
    finally:
        writer.close()


def test_a_bucket_that_has_everything(db, replica, tmp_path):
    found = drill(db, replica, tmp_path / "elsewhere")
    assert (found.outcome, found.reason, found.differences, found.lost_rows) == ("equal", None, (), 0)
    assert len(found.position) == POSITION
    assert found.rows > 2
    assert found.as_proof(NOW, 3.0).is_proof


def test_commits_that_the_bucket_lacks_are_counted_and_prove_it_all_the_same(db, conn, replica, tmp_path):
    write(conn, 5)
    found = drill(db, replica, tmp_path / "elsewhere")
    assert (found.outcome, found.lost_rows, found.lost_ms) == ("behind", 1, 400)
    events = next(each for each in found.differences if each.table == "events")
    assert (events.lost, events.changed, events.extra, events.first_lost) == (1, 0, 0, "3")

    proof = found.as_proof(NOW, 3.0)
    with transaction(conn):
        restore_proofs.add(conn, proof)
    assert restore_proofs.last_proven(conn) == proof


def test_an_older_event_that_is_another_one_is_no_earlier_state(db, conn, replica, tmp_path):
    with transaction(conn):
        rows(conn, "UPDATE events SET data = '{\"a\": 1}' WHERE id = 1")
    found = drill(db, replica, tmp_path / "elsewhere")
    assert found.outcome == "differs"
    assert found.reason == "these tables differ, and not by their newest rows alone: events"
    assert not found.as_proof(NOW, 3.0).is_proof


def test_old_events_that_were_removed_meanwhile_are_no_other_history(db, conn, replica, tmp_path):
    write(conn, 5)
    with transaction(conn):
        rows(conn, "DELETE FROM events WHERE id = 1")
    assert drill(db, replica, tmp_path / "elsewhere").outcome == "behind"


def test_a_file_that_is_damaged_in_the_bucket_is_told(db, replica, tmp_path):
    (damaged,) = (tmp_path / "replica").rglob("*.ltx")
    body = damaged.read_bytes()
    damaged.write_bytes(body[: len(body) // 2])
    found = drill(db, replica, tmp_path / "elsewhere")
    assert (found.outcome, found.position) == ("damaged", "")
    assert not found.as_proof(NOW, 3.0).is_proof


def test_a_writer_that_comes_back_changes_nothing_of_what_is_compared(db, conn, replica, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    writer = DeadWriter(db)
    write(conn, 9)
    found = writer.restore_and_compare(replica, present_prefix(replica, ENVIRON), tmp_path / "elsewhere", ENVIRON)
    writer.close()
    assert found.outcome == "equal"


def test_without_a_replica_or_without_room_no_drill_begins(db, tmp_path):
    with pytest.raises(DrillRefused, match="nothing has been replicated"):
        present_prefix(f"file://{tmp_path}/empty", ENVIRON)
    check_room(db, tmp_path)
    huge = tmp_path / "huge.db"
    with huge.open("wb") as file:
        file.truncate(2**50)
    with pytest.raises(DrillRefused, match="MB are missing"):
        check_room(huge, tmp_path)
    with pytest.raises(DrillRefused, match="there is no database"):
        check_room(tmp_path / "none.db", tmp_path)
