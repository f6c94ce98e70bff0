"""``publish``: the mart has the rows of the database, and keeps them over runs, restores and prunings."""

import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import dataset
from pyarrow import parquet as pq

from shared.db.engine.connection import open_connection, transaction
from shared.db.queue.schedules import missed_runs
from shared.db.queue.schedules.missed_runs import MissedRuns
from spark_jobs.mart.places import present
from spark_jobs.mart.tables import ALL
from tests.spark_jobs.mart.publishing import DAY_MS, HOUR_MS, KEY, NOON, event, rows_of


def stored(primary, table, columns):
    """The rows of the live file, in the types of the mart."""
    names = ", ".join(f'"{name}"' for name in columns)
    found = []
    for row in primary.execute(f"SELECT {names} FROM {table}"):
        kinds = zip(row, columns.items(), strict=True)
        found.append({name: as_kind(value, kind) for value, (name, kind) in kinds})
    return sorted(found, key=lambda row: str(row.get("id", row)).zfill(20))


def as_kind(value, kind):
    if value is None or not kind.startswith("timestamp"):
        return value
    return pa.scalar(value, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")).as_py()


def at(ms):
    return as_kind(ms, "timestamp")


def assert_equal(place, primary):
    manifest, _, _ = present(place)
    assert set(manifest.tables) == {table.name for table in ALL}
    for name, table in manifest.tables.items():
        assert rows_of(place, name) == stored(primary, name, table.columns), name
        assert table.rows == len(rows_of(place, name))


def files_under(folder):
    root = Path(folder).resolve()
    return {str(path.relative_to(root)): path.stat().st_ino for path in root.rglob("*.parquet")}


def test_every_table_is_the_same_as_in_the_database(primary, run, anywhere):
    primary.receive(3)
    primary.receive(2, status="completed", at=NOON + DAY_MS)
    event(primary, "message_received", NOON, message_id="m_0")
    primary.execute(
        "INSERT INTO usage (turn, agent, session, model, paid_by, requests, input, output, cache_read, cache_write,"
        " cost, created_at, updated_at) VALUES ('t', 'a', 's', 'm', 'key', 1, 2, 3, 4, 5, 9007199254740993, ?, ?)",
        [(NOON, NOON)],
    )
    assert run(anywhere) == 0
    assert_equal(anywhere, primary)
    assert list(present(anywhere)[0].tables["messages"].days) == ["2025-10-09", "2025-10-10"]


def test_what_a_series_missed_is_in_the_mart_with_its_reason_also_after_it_was_pruned(primary, run, mart):
    conn = open_connection(primary.path)
    hourly = ("0 * * * *", "UTC")
    missed = [
        MissedRuns("daily", "task_1", NOON, None, None, None, "too_late", NOON + HOUR_MS),
        MissedRuns("hourly", "task_2", NOON, NOON + 3 * HOUR_MS, *hourly, "coalesced", NOON + DAY_MS),
        MissedRuns("hourly", "task_3", NOON + DAY_MS, NOON + DAY_MS + HOUR_MS, *hourly, "ended", NOON + DAY_MS + 1),
    ]
    with transaction(conn):
        for each in missed:
            missed_runs.note(conn, each)
    assert run(mart, "--without-text") == 0
    with transaction(conn):
        assert missed_runs.prune(conn, older_than_ms=NOON + 2 * DAY_MS, limit=9) == 2
        missed_runs.note(conn, missed[0]._replace(noted_at=NOON + 2 * DAY_MS))
    conn.close()
    assert run(mart, "--without-text") == 0
    found = rows_of(mart, "missed_runs")
    expected = [*missed, missed[0]._replace(noted_at=NOON + 2 * DAY_MS)]
    names = ("series_id", "reason", "due_at", "until_at", "noted_at")
    assert [tuple(row[name] for name in names) for row in found] == [
        (each.series_id, each.reason, *map(at, (each.due_at, each.until_at, each.noted_at))) for each in expected
    ]
    assert list(present(mart)[0].tables["missed_runs"].days) == ["2025-10-09", "2025-10-10", "2025-10-11"]


def test_a_later_run_reads_what_is_new_and_what_has_changed(primary, run, anywhere):
    primary.receive(4)
    primary.receive(2, at=NOON + DAY_MS)
    event(primary, "message_received", NOON, message_id="m_0")
    assert run(anywhere) == 0
    first = present(anywhere)[0]

    primary.execute("UPDATE messages SET status = 'completed' WHERE id = 2")
    event(primary, "chain_step_done", NOON + DAY_MS, message_id="m_9", data=json.dumps({"batch": ["m_1"]}))
    primary.execute("UPDATE messages SET status = 'dead', failure = 'error' WHERE id = 5")
    event(primary, "message_dead", NOON + DAY_MS, message_id="m_4")
    primary.execute("UPDATE messages SET process_after = 5 WHERE id = 6")  # no event names it, but it is open
    primary.receive(3, at=NOON + 2 * DAY_MS)
    assert run(anywhere) == 0
    assert_equal(anywhere, primary)
    second = present(anywhere)[0]
    assert second.generation == 2
    assert second.tables["messages"].days["2025-10-11"].generation == 2
    assert not first.files & second.files & {name for name in second.files if name.startswith("messages/")}


def test_context_that_a_turn_passed_over_has_ended_although_no_event_names_it(primary, run, mart):
    primary.receive(2)
    primary.execute("UPDATE messages SET trigger = 0 WHERE id = 1")
    event(primary, "message_received", NOON, message_id="m_0")
    assert run(mart) == 0
    primary.execute(f"UPDATE messages SET status = 'completed', updated_at = {NOON + DAY_MS} WHERE id = 1")
    event(primary, "chain_step_done", NOON + DAY_MS, message_id="m_9", data='{"batch": ["m_9"]}')
    assert run(mart) == 0
    assert_equal(mart, primary)


def test_a_day_without_changes_keeps_its_files(primary, run, mart):
    primary.receive(3, status="completed")
    event(primary, "chain_step_done", NOON, message_id="m_0")
    assert run(mart) == 0
    before = files_under(f"{mart}/current")
    primary.receive(2, at=NOON + DAY_MS)
    assert run(mart) == 0
    after = files_under(f"{mart}/current")
    kept = {name: inode for name, inode in before.items() if "day=2025-10-09" in name}
    assert kept
    assert kept.items() <= after.items(), "hard links, not copies"


def test_rows_that_the_database_prunes_stay_as_they_were_last_seen(primary, run, anywhere):
    primary.receive(3)
    assert run(anywhere) == 0
    primary.execute("UPDATE messages SET status = 'completed'")
    for each in range(3):
        event(primary, "chain_step_done", NOON, message_id=f"m_{each}")
    assert run(anywhere) == 0
    primary.receive(1, at=NOON + DAY_MS)
    primary.execute("DELETE FROM messages WHERE id <= 3")
    assert run(anywhere) == 0
    assert [(row["id"], row["status"]) for row in rows_of(anywhere, "messages")] == [
        (1, "completed"),
        (2, "completed"),
        (3, "completed"),
        (4, "pending"),
    ]


def test_a_message_that_ended_and_was_pruned_between_two_runs_has_ended(primary, run, mart, monkeypatch):
    monkeypatch.setenv("POSTROOM_MART_KEY", KEY)
    primary.receive(4)
    primary.execute("UPDATE messages SET status = 'dead', failure = 'error' WHERE id = 2")
    event(primary, "message_received", NOON, message_id="m_0")
    assert run(mart, "--hash-people") == 0
    first = rows_of(mart, "messages")
    event(primary, "chain_step_done", NOON + HOUR_MS, message_id="m_9", data='{"batch": ["m_9", "m_0"]}')
    event(primary, "message_deleted", NOON + DAY_MS, message_id="m_1")
    primary.execute("DELETE FROM messages WHERE id <= 2")
    assert run(mart, "--hash-people") == 0
    completed, deleted, *others = rows_of(mart, "messages")
    assert completed == {**first[0], "status": "completed", "updated_at": at(NOON + HOUR_MS)}
    assert (deleted["status"], deleted["message"], deleted["updated_at"]) == ("cancelled", "", at(NOON + DAY_MS))
    assert others == first[2:]


def test_a_message_that_died_and_was_answered_after_a_retry_by_hand_is_not_dead(primary, run, mart):
    primary.receive(2, status="dead")
    event(primary, "message_dead", NOON, message_id="m_0")
    assert run(mart) == 0
    event(primary, "message_retried", NOON + HOUR_MS, message_id="m_0")
    event(primary, "chain_step_done", NOON + DAY_MS, message_id="m_0", data='{"batch": ["m_0"]}')
    primary.receive(1, at=NOON + DAY_MS)
    primary.execute("DELETE FROM messages WHERE id = 1")
    assert run(mart) == 0
    assert [(row["id"], row["status"]) for row in rows_of(mart, "messages")] == [
        (1, "completed"),
        (2, "dead"),
        (3, "pending"),
    ]


def test_a_response_that_ended_and_was_pruned_between_two_runs_has_ended(primary, run, mart):
    series = "'0 * * * *', 'UTC', 5, 'series_1'"
    for status in ("pending", "dead", "dead", "dead"):
        primary.execute(
            "INSERT INTO responses (message_id, channel, sender, message, original_message, status, recurrence,"
            f" timezone, scheduled_at, series_id, created_at)"
            f" VALUES ('m', 'discord', 'a', 'hello', 'h', ?, {series}, ?)",
            [(status, NOON)],
        )
    event(primary, "response_dead", NOON, response_id=2)
    assert run(mart) == 0
    event(primary, "response_acked", NOON + HOUR_MS, response_id=1)
    event(primary, "response_retried", NOON + HOUR_MS, response_id=2)
    event(primary, "response_acked", NOON + DAY_MS, response_id=2)
    event(primary, "response_deleted", NOON + DAY_MS, response_id=3)
    primary.execute("DELETE FROM responses WHERE id <= 3")
    assert run(mart) == 0
    columns = ("id", "status", "message", "recurrence", "acked_at")
    assert [tuple(row[name] for name in columns) for row in rows_of(mart, "responses")] == [
        (1, "acked", "hello", None, at(NOON + HOUR_MS)),
        (2, "acked", "hello", None, at(NOON + DAY_MS)),
        (3, "deleted", "", None, None),
        (4, "dead", "hello", "0 * * * *", None),
    ]


def test_the_same_position_changes_nothing(primary, run, mart, capsys):
    primary.receive(3)
    assert run(mart) == 0
    before = {path: path.read_bytes() for path in Path(mart).resolve().rglob("*") if path.is_file()}
    assert run(mart) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in Path(mart).resolve().rglob("*") if path.is_file()} == before


def test_an_earlier_position_is_refused(primary, run, mart, capsys):
    primary.receive(1)
    assert run(mart) == 0
    txid = present(mart)[0].txid
    primary.receive(1)
    assert run(mart) == 0
    assert run(mart, "--txid", txid) == 64
    assert "only goes forward" in capsys.readouterr().err
    assert len(rows_of(mart, "messages")) == 2


def test_an_instant_in_the_future_is_refused(primary, run, mart, capsys):
    primary.receive(1)
    assert run(mart, "--timestamp", "2999-01-01T00:00:00Z") == 64
    assert "is in the future: the newest position of the replica is from 20" in capsys.readouterr().err
    assert not Path(mart, "current").exists()


def test_a_reader_keeps_its_generation_while_another_is_published(primary, run, anywhere):
    primary.receive(2)
    assert run(anywhere) == 0
    manifest, files, base = present(anywhere)
    primary.execute("UPDATE messages SET status = 'completed'")
    event(primary, "chain_step_done", NOON, message_id="m_0", data=json.dumps({"batch": ["m_0", "m_1"]}))
    assert run(anywhere) == 0
    names = manifest.tables["messages"].days["2025-10-09"].files
    read = [
        row["status"] for name in names for row in pq.read_table(files.open_input_file(f"{base}/{name}")).to_pylist()
    ]
    assert read == ["pending", "pending"]
    assert [row["status"] for row in rows_of(anywhere, "messages")] == ["completed", "completed"]


def test_a_run_that_ends_early_leaves_the_mart_as_it_was(primary, run, mart):
    primary.receive(2)
    assert run(mart) == 0
    rest = Path(mart) / "generations" / "next" / "messages"
    rest.mkdir(parents=True)
    (rest / "half.parquet").write_bytes(b"PAR1")
    (Path(mart) / "generations" / "000002").mkdir()  # killed between the rename and the link
    (Path(mart) / "generations" / "000002" / "manifest.json").write_bytes(b"{}")
    primary.receive(1)
    assert run(mart) == 0
    assert_equal(mart, primary)
    assert not list(Path(mart).resolve().rglob("half.parquet"))


def test_a_glob_over_current_finds_the_days(primary, run, mart):
    """As DuckDB and pandas read it: by the names of files and folders, without the manifest."""
    primary.receive(3)
    primary.receive(1, at=NOON + DAY_MS)
    assert run(mart) == 0
    found = dataset.dataset(f"{mart}/current/messages", format="parquet", partitioning="hive").to_table()
    assert sorted(str(day) for day in found["day"].to_pylist()) == ["2025-10-09"] * 3 + ["2025-10-10"]


def test_files_are_private(primary, run, mart):
    primary.receive(1)
    os.umask(0o022)
    assert run(mart) == 0
    everything = [Path(mart), *Path(mart).rglob("*")]
    assert [path for path in everything if not path.is_symlink() and path.stat().st_mode & 0o077] == []


@pytest.mark.long
def test_many_small_files_of_a_day_are_merged(primary, run, mart):
    for each in range(18):
        primary.receive(1, status="completed", at=NOON + each)
        assert run(mart) == 0
    assert_equal(mart, primary)
    assert len(present(mart)[0].tables["messages"].days["2025-10-09"].files) < 16


def test_a_restore_that_lost_the_last_commits_takes_them_out_of_the_mart(primary, run, anywhere, capsys):
    """The ids of what was lost are given to other rows."""
    primary.execute("INSERT INTO meta (key, value) VALUES ('epoch', 'one') ON CONFLICT DO UPDATE SET value = 'one'")
    for each in range(6):
        primary.receive(1, status="completed", at=NOON + each * HOUR_MS)
        event(primary, "message_received", NOON + each * HOUR_MS, message_id=f"m_{each}")
    assert run(anywhere) == 0
    for table in ("messages", "events"):
        primary.execute(f"DELETE FROM {table} WHERE id > 3")  # what a restore of an earlier position gives
    primary.execute("DELETE FROM messages WHERE id = 1")  # and this one was pruned since
    primary.execute("UPDATE meta SET value = 'two' WHERE key = 'epoch'")
    for each in range(2):
        primary.receive(1, channel="discord", at=NOON + (8 + each) * HOUR_MS)
        event(primary, "message_received", NOON + (8 + each) * HOUR_MS, message_id=f"m_{3 + each}")
    assert run(anywhere) == 0
    said = capsys.readouterr().out
    assert re.search(r"a new history: rows from 2025-10-09T\d\d:\d\d:\d\d\.\d{3}Z on were read", said)
    manifest = present(anywhere)[0]
    assert [row["channel"] for row in rows_of(anywhere, "messages")] == ["telegram"] * 3 + ["discord"] * 2
    assert rows_of(anywhere, "events") == stored(primary, "events", manifest.tables["events"].columns)
    assert manifest.new_histories[0]["generation"] == 2
    primary.receive(1, at=NOON + DAY_MS)
    assert run(anywhere) == 0, "and then it goes on"
    assert [row["id"] for row in rows_of(anywhere, "messages")] == [1, 2, 3, 4, 5, 6]


def test_a_history_that_shares_nothing_with_the_mart_is_refused(primary, run, mart, capsys):
    event(primary, "message_received", NOON, message_id="m_0")
    assert run(mart) == 0
    primary.execute("DELETE FROM events")
    event(primary, "agent_paused", NOON + 5)
    primary.execute("INSERT INTO meta (key, value) VALUES ('epoch', 'x') ON CONFLICT DO UPDATE SET value = 'x'")
    assert run(mart) == 64
    assert "no event in common" in capsys.readouterr().err


def test_one_history_of_the_replica_may_be_named(primary, run, mart):
    primary.begin_prefix("first", "epoch_1")
    primary.receive(2)
    primary.replicate()
    primary.begin_prefix("second", "epoch_2")
    primary.receive(3)
    assert run(mart, "--epoch", "epoch_1") == 0
    manifest, _, _ = present(mart)
    assert (manifest.epoch, manifest.tables["messages"].rows) == ("first", 2)
