import json

import pytest

from spark_jobs.__main__ import main
from spark_jobs.daily import days_to_compute
from spark_jobs.jobs import failures, people
from spark_jobs.mart.manifest import DayFiles, MartManifest, TableFiles

pytestmark = pytest.mark.spark
NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
DAY_MS = 86_400_000


def manifest(days):
    table = TableFiles({}, 1, {day: DayFiles(1, generation, ("f",)) for day, generation in days.items()})
    return MartManifest("r", "1", "t", "", "", 9, 0, "now", tables={"messages": table})


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
    assert days_to_compute(job, manifest(days), generation, written) == expected


@pytest.mark.parametrize("where", ["folder", pytest.param("s3", marks=pytest.mark.long)])
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
    assert not [path for path in out.rglob("*") if path.stat().st_mode & 0o077]
    assert main(["costs", "--mart", mart, "--out", str(out)]) == 64
    assert "holds failures" in capsys.readouterr().err


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
