"""What is deleted of the inboxes and outboxes of agents."""

import os

import pytest

from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.db.queue import messages
from shared.turns.run.files import old_files
from shared.turns.run.files.old_files import BoxLimits, KeptFile
from tests.support import NOW, make_agent, put

HOUR = 3_600_000
DAY = 24 * HOUR
SESSION = "sessions/session_a"


@pytest.fixture
def folder(tmp_path, monkeypatch, conn):
    """The folder of the agent *coder*, which may keep 1 MB."""
    monkeypatch.setenv("POSTROOM_AGENTS_DIR", str(tmp_path / "agents"))
    make_agent(conn, "coder", files_limit_mb=1)
    return tmp_path / "agents" / "coder"


def write(folder, name, size=10, age_ms=HOUR):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, ((NOW - age_ms) / 1000,) * 2)
    return path


def message(conn, status="completed"):
    """The visible id of a message that has this status."""
    message_id = messages.id_of(conn, put(conn, "look", agent="coder"))
    with transaction(conn):
        rows(conn, "UPDATE messages SET status = ? WHERE message_id = ?", (status, message_id))
    return message_id


def delete(conn):
    return old_files.delete_old(conn, Settings.load(), now_ms=NOW)


def left(folder):
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_symlink() or each.is_file())


FILES = {
    "of a message that is over, for a day": ("completed", 5, True),
    "of a message that is over, older": ("completed", 15, False),
    "of a message that failed, older": ("dead", 15, False),
    "of a message that waits": ("pending", 15, True),
    "of a message that runs": ("processing", 15, True),
    "of a message that is gone": (None, 5, False),
    "of an outbox, for a day": ("outbox", 5, True),
    "of an outbox, older": ("outbox", 15, False),
}


@pytest.mark.parametrize(("status", "age", "stays"), FILES.values(), ids=FILES)
def test_a_file_goes_with_its_message_or_with_its_time(status, age, stays):
    file = KeptFile(20 - age, 4096, None if status == "outbox" else "m", (1, 2, 3))
    statuses = {"m": status} if status not in (None, "outbox") else {}
    assert old_files.over([file], statuses, BoxLimits(10, 10**6)) == ([] if stays else [file])


def test_beyond_the_limit_the_oldest_go_first_and_never_those_of_a_message_that_runs():
    oldest, running, middle, newest = (
        KeptFile(at, 100, message, (1, at, 0)) for at, message in ((1, "a"), (2, "b"), (3, None), (4, "a"))
    )
    statuses = {"a": "completed", "b": "processing"}
    files = [newest, middle, oldest, running]
    assert old_files.over(files, statuses, BoxLimits(0, 400)) == []
    assert old_files.over(files, statuses, BoxLimits(0, 399)) == [oldest]
    assert old_files.over(files, statuses, BoxLimits(0, 299)) == [oldest, middle]
    assert old_files.over(files, statuses, BoxLimits(0, 0)) == [oldest, middle, newest]


def test_files_of_past_turns_are_not_there_for_later_ones(conn, folder):
    over, fresh = message(conn), message(conn)
    write(folder, f"{SESSION}/inbox/{over}/cat.png", age_ms=25 * HOUR)
    write(folder, f"{SESSION}/inbox/{fresh}/dog.png", age_ms=23 * HOUR)
    write(folder, f"{SESSION}/outbox/plots/old.png", age_ms=25 * HOUR)
    write(folder, f"{SESSION}/outbox/plots/new.png", age_ms=23 * HOUR)
    kept = write(folder, f"{SESSION}/claude/memory.jsonl", age_ms=99 * DAY)
    assert delete(conn) == 2
    assert left(folder) == [
        str(kept.relative_to(folder)),
        f"{SESSION}/inbox/{fresh}/dog.png",
        f"{SESSION}/outbox/plots/new.png",
    ]
    assert not (folder / SESSION / "inbox" / over).exists(), "nor its folder"


def test_a_file_is_as_old_by_a_moved_clock_as_by_the_machine_s(conn, folder, day_ahead):
    """Files have the times of the machine: one of 23 hours ago is none of 47."""
    over = message(conn)
    write(folder, f"{SESSION}/inbox/{over}/cat.png", age_ms=23 * HOUR)
    write(folder, f"{SESSION}/inbox/{over}/dog.png", age_ms=25 * HOUR)
    assert old_files.delete_old(conn, Settings.load(), now_ms=NOW + day_ahead) == 1
    assert left(folder) == [f"{SESSION}/inbox/{over}/cat.png"]


def test_files_go_with_their_message(conn, folder):
    pruned = message(conn)
    write(folder, f"{SESSION}/inbox/{pruned}/cat.png")
    assert delete(conn) == 0
    message(conn)  # the newest row stays
    with transaction(conn):
        assert messages.prune(conn, after_id=0, older_than_ms=NOW + DAY, limit=100)[0] == 1
    assert delete(conn) == 1
    assert left(folder) == []


def test_all_sessions_of_an_agent_share_the_limit_of_bytes(conn, folder):
    over = message(conn)
    for number in range(4):
        write(folder, f"sessions/session_{number}/inbox/{over}/big.bin", size=400_000, age_ms=HOUR - number)
    assert delete(conn) == 2
    assert left(folder) == [f"sessions/session_{number}/inbox/{over}/big.bin" for number in (2, 3)]


def test_an_agent_has_a_time_of_its_own(conn, folder):
    make_agent(conn, "coder", file_retention_ms=HOUR)
    write(folder, f"{SESSION}/outbox/a", age_ms=2 * HOUR)
    assert delete(conn) == 1


def test_no_link_of_a_program_is_followed(conn, folder, tmp_path):
    others = write(tmp_path, "others/secret", age_ms=9 * DAY)
    (folder / "sessions" / "session_a").mkdir(parents=True)
    (folder / SESSION / "inbox").symlink_to(others.parent)
    (folder / SESSION / "outbox").mkdir()
    (folder / SESSION / "outbox" / "folder").symlink_to(others.parent)
    (folder / SESSION / "outbox" / "file").symlink_to(others)
    os.utime(folder / SESSION / "outbox" / "file", (1, 1), follow_symlinks=False)
    assert delete(conn) == 1
    assert others.exists()
    assert left(folder / SESSION) == ["inbox", "outbox/folder"]


def test_a_folder_that_is_closed_hides_nothing(conn, folder):
    write(folder, f"{SESSION}/outbox/closed/a", age_ms=2 * DAY)
    (folder / SESSION / "outbox" / "closed").chmod(0)
    assert delete(conn) == 1


def test_a_folder_that_can_not_be_read_leaves_the_other_agents_theirs(conn, folder, tmp_path):
    make_agent(conn, "brave")
    (tmp_path / "agents" / "brave").mkdir(parents=True)
    (tmp_path / "agents" / "brave" / "sessions").write_text("no folder")
    write(folder, f"{SESSION}/outbox/a", age_ms=2 * DAY)
    assert delete(conn) == 1
