import fcntl
import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from spark_jobs.jobs import message_volume as job
from spark_jobs.jobs import publish
from tests.infra.processes import kept_port

pytestmark = [pytest.mark.spark, pytest.mark.long]
ROOT = Path(__file__).parents[3]
NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
DAY_MS = 86_400_000
NINTH, TENTH = date(2025, 10, 9), date(2025, 10, 10)


def run_job(*arguments):
    return job.main([str(argument) for argument in arguments])


def stored(spark, out):
    rows = spark.read.parquet(f"{out}/parquet").select(job.SCHEMA.fieldNames()).collect()
    return sorted(map(tuple, rows))


def manifest_of(out):
    return json.loads((out / "manifest.json").read_text())


@pytest.fixture
def counted(spark, primary, cache, tmp_path):
    """Replicate, run the job into one folder, return its exit code."""

    def counted(*arguments):
        primary.replicate()
        common = ("--replica", primary.url, "--out", tmp_path / "out", "--cache-dir", cache)
        return run_job(*common, *arguments)

    return counted


@pytest.mark.parametrize(("tz", "day"), [("UTC", NINTH), ("Europe/Berlin", TENTH), ("America/New_York", NINTH)])
def test_messages_are_counted_by_day_and_channel(spark, tz, day):
    evening = NOON + 11 * 3_600_000  # 23:00 UTC
    rows = [
        ("telegram", "completed", evening),
        ("telegram", "dead", evening),
        ("telegram", "pending", evening + 1),
        ("discord", "completed", evening),
    ]
    stored = spark.createDataFrame(rows, "channel string, status string, created_at long")
    messages = stored.withColumn("created_at", F.timestamp_millis("created_at"))
    found = sorted(map(tuple, job.message_volume(messages, tz).select(job.SCHEMA.fieldNames()).collect()))
    assert found == [(day, "discord", 1, 1, 0), (day, "telegram", 3, 1, 1)]


def test_a_run_prints_a_table_writes_days_and_says_which_position(spark, primary, counted, tmp_path, capsys):
    primary.receive(2, status="completed")
    primary.receive(1, channel="discord", status="dead", at=NOON + DAY_MS)
    assert counted() == 0

    out = tmp_path / "out"
    assert stored(spark, out) == [(NINTH, "telegram", 2, 2, 0), (TENTH, "discord", 1, 0, 1)]
    assert capsys.readouterr().out.splitlines()[:4] == [
        "day         channel   received  completed  dead",
        "----------  --------  --------  ---------  ----",
        "2025-10-09  telegram         2          2     0",
        "2025-10-10  discord          1          0     1",
    ]
    manifest = manifest_of(out)
    assert manifest["replica"] == primary.url
    assert (manifest["txid"], manifest["messages"], manifest["rows"]) == ("0000000000000001", 3, 2)
    assert manifest["days_written"] == ["2025-10-09", "2025-10-10"]
    assert manifest["code_version"].startswith("0.")


def test_output_files_are_private(primary, counted, tmp_path):
    primary.receive(1)
    assert counted() == 0
    out = tmp_path / "out"
    assert [path for path in (out, *out.rglob("*")) if path.stat().st_mode & 0o077] == []


def test_a_second_run_replaces_its_days_and_leaves_the_others(spark, primary, counted, tmp_path):
    primary.receive(2)
    primary.receive(2, at=NOON + DAY_MS)
    assert counted() == 0
    first = manifest_of(tmp_path / "out")
    primary.execute("DELETE FROM messages WHERE id <= 2")
    primary.execute("UPDATE messages SET status = 'completed'")
    primary.receive(1, at=NOON + DAY_MS)
    assert counted() == 0
    assert stored(spark, tmp_path / "out") == [(NINTH, "telegram", 2, 0, 0), (TENTH, "telegram", 3, 2, 0)]

    assert counted("--txid", first["txid"]) == 0, "an earlier position: that day now has fewer"
    assert manifest_of(tmp_path / "out")["days_kept"] == ["2025-10-10"]
    assert stored(spark, tmp_path / "out")[1] == (TENTH, "telegram", 3, 2, 0)


def test_a_day_whose_messages_were_pruned_is_kept_as_it_was(spark, primary, counted, tmp_path, capsys):
    primary.receive(3)
    assert counted() == 0
    primary.execute("DELETE FROM messages WHERE id < 3")
    assert counted() == 0
    assert stored(spark, tmp_path / "out") == [(NINTH, "telegram", 3, 0, 0)]
    assert manifest_of(tmp_path / "out")["days_kept"] == ["2025-10-09"]
    assert "kept, because an earlier run counted more: 2025-10-09" in capsys.readouterr().out


def test_over_a_mart_it_counts_rows_that_the_database_has_pruned(spark, primary, cache, tmp_path, capsys):
    mart = ("--mart", str(tmp_path / "mart"))

    def publish_and_count():
        primary.replicate()
        assert publish.main(["--replica", primary.url, *mart, "--cache-dir", str(cache)]) == 0
        assert run_job(*mart, "--out", tmp_path / "out") == 0
        return stored(spark, tmp_path / "out")

    primary.receive(3, status="completed")
    primary.receive(1, channel="discord", status="dead")
    assert publish_and_count() == [(NINTH, "discord", 1, 0, 1), (NINTH, "telegram", 3, 3, 0)]
    primary.execute("DELETE FROM messages WHERE id <= 3")
    primary.receive(1, at=NOON + DAY_MS)
    assert publish_and_count()[1:] == [(NINTH, "telegram", 3, 3, 0), (TENTH, "telegram", 1, 0, 0)]
    assert "days computed: 1" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        run_job(*mart, "--out", tmp_path / "out", "--tz", "Europe/Berlin")
    assert ended.value.code == 64


def test_an_empty_table_is_no_error(counted, capsys):
    assert counted() == 0
    assert "no messages yet" in capsys.readouterr().out


def test_days_of_two_zones_are_not_mixed(primary, counted, capsys):
    primary.receive(1)
    assert counted() == 0
    assert counted("--tz", "Europe/Berlin") == 64
    assert "holds days of UTC" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--out", "out"), "required: --replica"),
        (("--replica", "file:///r", "--out", "out", "--tz", "Mars/Olympus"), "no such time zone: 'Mars/Olympus'"),
        (("--replica", "file:///r", "--out", "out", "--tz", "../etc"), "no such time zone"),
        (("--replica", "file:///r", "--out", "out", "--txid", "1", "--timestamp", "2026-01-01"), "not allowed with"),
    ],
)
def test_a_wrong_command_line_is_64_with_a_hint(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        run_job(*arguments)
    assert ended.value.code == 64
    assert sentence in capsys.readouterr().err


def test_errors_of_the_command_line_come_before_spark_starts(tmp_path, primary, capsys):
    """In a process without a session these errors do not take ten seconds."""
    out = ("--out", tmp_path / "out", "--cache-dir", tmp_path / "cache")
    closed, port = kept_port()
    primary.replicate()
    assert run_job("--replica", "http://127.0.0.1", *out) == 64
    assert run_job("--replica", f"file://{tmp_path}/none", *out) == 66
    assert run_job("--replica", primary.url, "--txid", "77", *out) == 66
    with closed:
        assert run_job("--replica", f"s3://bucket/db?endpoint=http://127.0.0.1:{port}", *out) == 69
    (tmp_path / "file").touch()
    assert run_job("--replica", primary.url, "--out", tmp_path / "file" / "out") == 64
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 5
    assert all(line.startswith("message_volume: ") for line in said)


def test_a_folder_of_the_same_job_over_a_mart_is_refused(tmp_path, capsys):
    (tmp_path / "manifest.json").write_text('{"job": "message_volume", "mart": "/srv/mart", "mart_generation": 1}')
    assert run_job("--replica", "file:///nowhere", "--out", tmp_path) == 64
    assert "holds what was counted over a mart" in capsys.readouterr().err


def test_two_runs_do_not_write_to_one_folder(tmp_path, primary, capsys):
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run_job("--replica", primary.url, "--out", tmp_path / "out") == 75
    assert "another run is writing to" in capsys.readouterr().err


def test_it_runs_under_spark_submit_from_s3(spark, make_primary, s3, tmp_path):
    """Started by the path of its file: the driver and the workers must find our modules."""
    primary = make_primary(f"s3://bucket/submit?endpoint={s3}")
    primary.receive(3, status="completed")
    primary.replicate()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PYSPARK_PYTHON": sys.executable, "AWS_CA_BUNDLE": "/etc/ssl/certs/ca-certificates.crt"}
    submit = Path(sys.executable).with_name("spark-submit")
    command = [submit, "spark_jobs/message_volume.py", "--replica", primary.url, "--out", str(tmp_path / "out")]
    command += ["--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, umask=0o022, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "2025-10-09  telegram         3          3     0\n" in done.stdout
    assert stored(spark, tmp_path / "out") == [(NINTH, "telegram", 3, 3, 0)]
    assert not [path for path in (tmp_path / "out").rglob("*") if path.stat().st_mode & 0o077]
