"""What the report reads of the jobs' outputs, without a Spark session."""

import json
from datetime import date

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from shared.conversation.access import health
from shared.core.policy import AccessPolicy
from shared.db.engine.connection import open_connection, transaction
from shared.db.roster import agent_pauses
from shared.db.spending import budgets, usage
from shared.db.spending.usage import Tokens, TurnName
from spark_jobs.__main__ import main
from spark_jobs.jobs import backlog, costs, deliveries, failures
from spark_jobs.jobs.report import DAILY_JOBS
from spark_jobs.mart.manifest import MartManifest, Privacy, TableFiles
from spark_jobs.report.facts import Facts
from spark_jobs.report.judgement import judge
from spark_jobs.report.outputs import WHOLE_TABLES, drop_another, facts_of, rows_of, what_lacks

NOON, HOUR_MS = 1_760_011_200_000, 3_600_000  # 2025-10-09 12:00 UTC


def columns_of(*left_out):
    """The tables that all jobs together read, as an empty mart has them; without some columns."""
    found = {}
    for job in DAILY_JOBS:
        for name, columns in job.inputs.items():
            found.setdefault(name, {}).update(dict.fromkeys(columns, "int64"))
    found |= {name: {} for name in WHOLE_TABLES}
    return {
        name: TableFiles({each: kind for each, kind in columns.items() if each not in left_out}, 0, {})
        for name, columns in found.items()
    }


def manifest(generation=3, txid="0007", tables=None, new_histories=()):
    tables = columns_of() if tables is None else tables
    return MartManifest(
        "file:///r", txid, "2025-10-09T12:00:00Z", "", "h", generation, 0, "now", Privacy(), tables, new_histories
    )


@pytest.fixture
def mart(tmp_path):
    """Write a mart's manifest; return its place."""

    def write(made):
        folder = tmp_path / "mart" / "generations" / "000001"
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_bytes(made.to_json())
        (tmp_path / "mart" / "current").symlink_to(folder)
        return str(tmp_path / "mart")

    return write


def write_output(out, job, day, rows, place="/mart", generation=3, txid="0007", without=(), **more):
    """Write *rows*, with null in the columns that they lack; none of those in *without*."""
    (out / "parquet" / f"day={day}").mkdir(parents=True)
    names = [each for each in job.schema.names if each != "day" and each not in without]
    columns = {each: pa.array([row.get(each) for row in rows]) for each in names}
    pq.write_table(pa.table(columns), out / "parquet" / f"day={day}" / "part.parquet")
    facts = {"job": job.name, "version": job.version, "mart": place, "mart_generation": generation, "txid": txid}
    (out / "manifest.json").write_text(json.dumps(facts | more))


def told(rows):
    """The columns that have a value."""
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@pytest.mark.parametrize("options", [(), ("--without-text",)], ids=["whole", "without_text"])
def test_a_pause_and_a_used_up_budget_are_told_as_the_health_of_the_database_tells_them(
    primary, tmp_path, cache, options
):
    conn = open_connection(primary.path)
    conn.execute("INSERT INTO agents (id, name, created_at, updated_at) VALUES ('b', 'B', 1, 1)")
    with transaction(conn):
        agent_pauses.pause(conn, "a", "auth", "401: expired", now_ms=NOON)
        agent_pauses.pause_by_hand(conn, "b", "holiday", now_ms=NOON)
        budgets.put(conn, None, "day", "tokens", 10, now_ms=NOON)
        usage.add(conn, TurnName("turn_1", "a", "session_1"), "m", "key", Tokens(10), None, now_ms=NOON)
        budgets.mark(conn, 1, "used_up", period_start_ms=NOON - HOUR_MS, now_ms=NOON)
    needs = health.needs_of_rows(conn, primary.path, AccessPolicy("wire"), timezone="UTC", now_ms=NOON)
    conn.close()
    primary.replicate()
    place = str(tmp_path / "mart")
    assert main(["publish", "--replica", primary.url, "--mart", place, "--cache-dir", str(cache), *options]) == 0
    found = judge(Facts(NOON, NOON, whole=facts_of(place, tmp_path / "data", (), no_session, now_ms=NOON).whole))
    told = [f"{each.what[0].lower()}{each.what[1:]} {each.then} {each.command}" for each in found]
    assert told == [each.replace(": 401: expired", "") if options else each for each in needs]
    assert len(told) == 2


def no_session():
    raise AssertionError("a Spark session was asked for")


def test_rows_are_read_from_a_day_on_in_the_order_of_their_days(tmp_path):
    for day, count in (("2025-10-09", 3), ("2025-08-01", 1), ("2025-08-10", 2)):
        write_output(tmp_path, failures.JOB, day, [{"agent": "a", "messages": count}])
    assert told(rows_of(tmp_path, date(2025, 8, 10), failures.JOB)) == [
        {"agent": "a", "messages": 2, "day": date(2025, 8, 10)},
        {"agent": "a", "messages": 3, "day": date(2025, 10, 9)},
    ]


def test_a_message_that_has_waited_for_a_year_is_read(tmp_path):
    rows = [{"ended": date(2024, 10, 2), "messages": 1}, {"ended": None, "messages": 2}]
    write_output(tmp_path, backlog.JOB, "2024-10-01", rows)
    assert told(rows_of(tmp_path, date(2025, 8, 10), backlog.JOB)) == [{"messages": 2, "day": date(2024, 10, 1)}]


def test_no_output_is_no_row(tmp_path):
    assert rows_of(tmp_path / "none", date(2025, 8, 10), failures.JOB) == []


def test_an_output_that_lacks_a_column_names_the_job_to_run_again(tmp_path, mart, capsys):
    place = mart(manifest())
    for job in DAILY_JOBS:
        write_output(tmp_path / "page.html.data" / job.name, job, "2025-10-09", [{}], place)
    late = tmp_path / "page.html.data" / "deliveries"
    write_output(late, deliveries.JOB, "2025-10-08", [{}], place, without=("still_dead",))
    assert main(["report", "--mart", place, "--out", str(tmp_path / "page.html")]) == 64
    assert capsys.readouterr().err == (
        f"report: {late} has days without still_dead, so another release of the job deliveries wrote them: "
        "delete that folder, and the next report runs the job again\n"
    )


def test_current_outputs_are_read_without_a_session(tmp_path, mart):
    place = mart(manifest(new_histories=({"read_again_from_ms": 5, "generation": 2},)))
    for job in DAILY_JOBS:
        write_output(tmp_path / "data" / job.name, job, "2025-10-09", [{"agent": "a"}], place)
    facts = facts_of(place, tmp_path / "data", DAILY_JOBS, no_session, now_ms=7)
    assert (facts.at_ms, facts.now_ms, facts.restored_ms, facts.absent) == (1_760_011_200_000, 7, (5,), {})
    assert set(facts.rows) == {job.name for job in DAILY_JOBS}
    assert facts.today == date(2025, 10, 9)


@pytest.mark.parametrize("change", [{"generation": 2}, {"txid": "0006"}, {"place": "/other"}, {"version": 0}])
def test_outputs_of_another_generation_or_mart_are_brought_to_this_one(tmp_path, mart, change):
    place = mart(manifest())
    for job in DAILY_JOBS:
        write_output(tmp_path / "data" / job.name, job, "2025-10-09", [{"agent": "a"}], place)
    last = tmp_path / "data" / DAILY_JOBS[-1].name
    (last / "parquet" / "day=2025-10-09" / "part.parquet").unlink()
    (last / "parquet" / "day=2025-10-09").rmdir()
    write_output(last, DAILY_JOBS[-1], "2025-10-09", [{"agent": "a"}], **({"place": place} | change))
    with pytest.raises(AssertionError, match="a Spark session was asked for"):
        facts_of(place, tmp_path / "data", DAILY_JOBS, no_session, now_ms=7)


@pytest.mark.parametrize(
    ("written", "is_dropped"),
    [
        ({}, False),
        ({"generation": 2, "txid": "0003"}, False),
        ({"generation": 4}, True),
        ({"txid": "0006"}, True),
        ({"place": "/other", "generation": 2}, True),
    ],
    ids=["same", "earlier", "later", "begun_again", "another_mart"],
)
def test_what_was_written_for_another_mart_is_dropped(tmp_path, written, is_dropped):
    write_output(tmp_path, failures.JOB, "2025-10-09", [{"agent": "a"}], **written)
    drop_another(tmp_path, failures.JOB, "/mart", manifest())
    assert (tmp_path / "manifest.json").exists() is not is_dropped
    assert bool(rows_of(tmp_path, date(2025, 10, 1), failures.JOB)) is not is_dropped


def test_what_another_job_wrote_is_never_dropped(tmp_path):
    write_output(tmp_path, costs.JOB, "2025-10-09", [{"agent": "a"}], place="/other")
    drop_another(tmp_path, failures.JOB, "/mart", manifest())
    assert rows_of(tmp_path, date(2025, 10, 1), costs.JOB)


@pytest.mark.parametrize(
    ("job", "tables", "expected"),
    [
        (costs.JOB, columns_of(), ""),
        (costs.JOB, {}, "table usage"),
        (backlog.JOB, columns_of("trigger", "process_after"), "trigger, process_after in table messages"),
    ],
)
def test_a_job_tells_what_a_mart_lacks(job, tables, expected):
    assert what_lacks(job, manifest(tables=tables)) == expected


def test_a_mart_without_any_table_that_the_jobs_need_has_a_page(tmp_path, mart, capsys):
    page = tmp_path / "page.html"
    assert main(["report", "--mart", mart(manifest(tables={})), "--out", str(page)]) == 0
    assert "It lacks: message_volume (no table messages)" in capsys.readouterr().out
    assert "This mart has no table usage." in page.read_text()
    assert page.stat().st_mode & 0o077 == 0


def test_wrong_places_are_told_before_anything_is_made(tmp_path, capsys):
    none = str(tmp_path / "none")
    assert main(["report", "--mart", none, "--out", str(tmp_path)]) == 64
    assert f"is a folder: name the page to write, like --out {tmp_path}/report.html" in capsys.readouterr().err
    assert main(["report", "--mart", none, "--out", str(tmp_path / "page.html")]) == 64
    assert "there is no mart" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main(["report", "--mart", none, "--out", str(tmp_path / "file" / "page.html")]) == 64
    assert "name another page with --out" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
