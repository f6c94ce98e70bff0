import json
import re
from dataclasses import replace

import pytest

from spark_jobs.__main__ import main
from spark_jobs.daily import Done, days_to_compute
from spark_jobs.jobs import deliveries, failures, people, schedules
from spark_jobs.mart.manifest import DayFiles, MartManifest, TableFiles

pytestmark = pytest.mark.spark
NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def manifest(days, timestamp="2025-12-01T10:00:00Z"):
    table = TableFiles({}, 1, {day: DayFiles(1, generation, ("f",)) for day, generation in days.items()})
    return MartManifest("r", "1", timestamp, "", "", 9, 0, "now", tables={"messages": table})


@pytest.mark.parametrize(
    ("job", "generation", "written", "expected"),
    [
        (failures.JOB, 0, [], ["2025-10-01", "2025-10-02", "2025-12-01"]),
        (failures.JOB, 7, ["2025-10-01"], ["2025-10-02"]),
        (failures.JOB, 9, [], []),
        (failures.JOB, 9, ["2025-09-01"], ["2025-09-01"]),
        (people.JOB, 3, ["2025-10-01"], ["2025-10-02"]),
        (people.JOB, 1, ["2025-10-01"], ["2025-10-01", "2025-10-02"]),
    ],
)
def test_days_are_computed_again_where_their_input_has_changed(job, generation, written, expected):
    days = {"2025-10-01": 2, "2025-10-02": 8, "2025-12-01": 1}
    if generation == 0:
        days["2025-12-01"] = 9
    assert days_to_compute(job, manifest(days), Done(generation), written) == expected


def test_days_before_a_changed_day_are_computed_again_where_their_output_depends_on_it():
    job = replace(deliveries.JOB, inputs=people.JOB.inputs)
    days = {"2025-10-01": 2, "2025-10-02": 2, "2025-10-09": 8, "2025-10-11": 2, "2025-10-12": 2}
    assert days_to_compute(job, manifest(days), Done(7), []) == ["2025-10-02", "2025-10-09", "2025-10-11"]
    assert (min(job.needed(["2025-10-09"], "messages")), max(job.needed(["2025-10-09"], "messages"))) == (
        "2025-10-07",
        "2025-10-16",
    )


def test_rows_of_later_days_that_a_job_reads_make_no_day_be_computed_again():
    assert days_to_compute(failures.JOB, manifest({"2025-10-01": 2, "2025-10-03": 8}), Done(7), []) == ["2025-10-03"]
    assert failures.JOB.needed(["2025-10-01"], "messages") == {"2025-10-01"}
    assert max(failures.JOB.needed(["2025-10-01"], "events")) == "2025-11-01"


def test_the_days_of_the_last_position_and_of_this_one_are_computed_where_the_output_tells_of_the_present():
    days = {"2025-10-01": 2}
    last = Done(7, "2025-11-29T23:59:59Z")
    assert days_to_compute(schedules.JOB, manifest(days), last, []) == ["2025-11-29", "2025-12-01"]
    assert days_to_compute(schedules.JOB, manifest(days), Done(9, "2025-12-01T10:00:00Z"), ["2025-12-01"]) == []
    assert days_to_compute(schedules.JOB, manifest(days), Done(), []) == ["2025-10-01", "2025-12-01"]
    assert days_to_compute(schedules.JOB, manifest({}), Done(), []) == []


@pytest.mark.long
@pytest.mark.parametrize("where", ["folder", "s3"])
def test_a_job_computes_only_changed_days_of_a_mart(spark, primary, cache, tmp_path, s3, where, capsys):
    mart = str(tmp_path / "mart") if where == "folder" else f"s3://bucket/{tmp_path.name}?endpoint={s3}"
    out = tmp_path / "out"

    def run():
        primary.replicate()
        assert main(["publish", "--replica", primary.url, "--mart", mart, "--cache-dir", str(cache)]) == 0
        assert main(["failures", "--mart", mart, "--out", str(out)]) == 0
        rows = spark.read.parquet(f"{out}/parquet").select(failures.JOB.schema.fieldNames()).collect()
        written = json.loads((out / "manifest.json").read_text())["days_written"]
        return written, sorted((str(row.day), row.messages, row.dead) for row in rows)

    primary.receive(3, status="dead")
    primary.receive(2, at=NOON + DAY_MS)
    assert run() == (["2025-10-09", "2025-10-10"], [("2025-10-09", 3, 3), ("2025-10-10", 2, 0)])
    primary.receive(1, at=NOON + DAY_MS)
    assert run() == (["2025-10-10"], [("2025-10-09", 3, 3), ("2025-10-10", 3, 0)])
    assert "days computed: 1" in capsys.readouterr().out
    facts = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps({**facts, "version": 1}))
    assert run() == (["2025-10-09", "2025-10-10"], [("2025-10-09", 3, 3), ("2025-10-10", 3, 0)]), "an earlier release"
    assert not [path for path in out.rglob("*") if path.stat().st_mode & 0o077]
    assert main(["costs", "--mart", mart, "--out", str(out)]) == 64
    assert "holds failures" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--without-text",)], ids=["whole", "without_text"])
def test_the_causes_of_attempts_are_known_although_the_database_has_pruned_them(
    spark, primary, cache, tmp_path, options
):
    mart, out = str(tmp_path / "mart"), tmp_path / "out"
    attempts = [("message_retry", "network", 1), ("message_retry", "killed", 2), ("message_dead", "error", 3)]
    publish = ["publish", "--replica", primary.url, "--mart", mart, "--cache-dir", str(cache), *options]
    primary.receive(2)
    for number, (kind, failure, count) in enumerate(attempts):
        data = json.dumps({"reason": "grüße", "failure": failure, "retry_count": count})
        primary.execute(
            "INSERT INTO events (type, message_id, agent, data, created_at) VALUES (?, 'm_0', 'a', ?, ?)",
            [(kind, data, NOON + number * DAY_MS)],
        )
        status = "dead" if kind == "message_dead" else "pending"
        primary.execute(
            f"UPDATE messages SET status = '{status}', retry_count = {count}, failure = '{failure}' WHERE id = 1"
        )
        primary.replicate()
        assert main(publish) == 0
        primary.execute(f"DELETE FROM events WHERE created_at < {NOON + number * DAY_MS}")
    primary.execute("DELETE FROM messages WHERE id = 1")
    primary.receive(1, at=NOON + 4 * DAY_MS)
    primary.replicate()
    assert main(publish) == 0
    assert main(["failures", "--mart", mart, "--out", str(out)]) == 0
    rows = spark.read.parquet(f"{out}/parquet").where("day = '2025-10-09'").collect()
    assert sorted((row.failure, row.messages, row.failed_attempts, row.dead) for row in rows) == [
        ("error", 1, 1, 1),
        ("killed", 0, 1, 0),
        ("network", 0, 1, 0),
        ("none", 1, 0, 0),
    ]


@pytest.mark.long
def test_what_a_schedule_misses_moves_with_the_position_until_it_runs_again(spark, primary, cache, tmp_path):
    """The mart's position stands for the present. Each run computes the day of the last one again."""
    mart, out = tmp_path / "mart", tmp_path / "out"
    occurrence = (
        "INSERT INTO messages (message_id, id_prefix, channel, sender, message, agent, session_id, status, recurrence,"
        " timezone, scheduled_at, series_id, created_at, updated_at)"
        " VALUES (?, 'task', 'schedule', 'ann', 'report', 'a', 1, 'pending', '0 * * * *', 'UTC', ?, 'series_1', ?, 5)"
    )
    begun = (
        "INSERT INTO schedule_runs (series_id, message_id, due_at, started_at, recurrence, made_at, previous_due_at)"
        " VALUES ('series_1', ?, ?, ?, '0 * * * *', ?, ?)"
    )

    def missed(position):
        primary.replicate()
        assert main(["publish", "--replica", primary.url, "--mart", str(mart), "--cache-dir", str(cache)]) == 0
        manifest = mart / "current" / "manifest.json"  # the position has the instant of Litestream's last write
        text = re.sub(r'"timestamp": "[^"]*"', f'"timestamp": "{position}"', manifest.read_text())
        manifest.write_text(text)
        assert main(["schedules", "--mart", str(mart), "--out", str(out)]) == 0
        rows = spark.read.schema(schedules.JOB.schema).parquet(f"{out}/parquet").collect()
        return sorted((str(row.day), row.runs, row.missed) for row in rows)

    primary.execute(begun, [("task_1", NOON, NOON, NOON, None)])
    primary.execute(occurrence, [("task_2", NOON + HOUR_MS, NOON)])
    assert missed("2025-10-09T15:30:00Z") == [("2025-10-09", 1, 3)]
    primary.receive(1)
    assert missed("2025-10-10T00:30:00Z") == [("2025-10-09", 1, 0), ("2025-10-10", 0, 12)]
    primary.execute(begun, [("task_2", NOON + HOUR_MS, NOON + 13 * HOUR_MS, NOON, NOON)])
    primary.execute("UPDATE messages SET status = 'completed', recurrence = NULL WHERE message_id = 'task_2'")
    primary.execute(occurrence, [("task_3", NOON + 14 * HOUR_MS, NOON + 13 * HOUR_MS)])
    assert missed("2025-10-10T01:00:00Z") == [("2025-10-09", 1, 0), ("2025-10-10", 1, 0)]


def test_a_folder_of_a_job_that_read_a_replica_is_refused(primary, cache, tmp_path, capsys):
    primary.receive(1)
    primary.replicate()
    mart, out = tmp_path / "mart", tmp_path / "out"
    assert main(["publish", "--replica", primary.url, "--mart", str(mart), "--cache-dir", str(cache)]) == 0
    out.mkdir()
    (out / "manifest.json").write_text('{"job": "message_volume", "replica": "file:///r", "tz": "UTC"}')
    assert main(["message_volume", "--mart", str(mart), "--out", str(out)]) == 64
    assert "holds message_volume of file:///r: name another folder" in capsys.readouterr().err


def test_a_job_says_where_there_is_no_mart(tmp_path, capsys):
    assert main(["people", "--mart", str(tmp_path / "none"), "--out", str(tmp_path / "out")]) == 64
    assert "there is no mart" in capsys.readouterr().err
