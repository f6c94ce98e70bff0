"""The whole way: a replica that the real Litestream wrote, a mart, the jobs, the page."""

import json
import re
from datetime import date
from pathlib import Path

import pytest

from spark_jobs.__main__ import main
from spark_jobs.jobs.report import DAILY_JOBS
from spark_jobs.report.outputs import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.long]
NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
DAY_MS = 86_400_000


@pytest.fixture
def make(primary, cache, tmp_path):
    """Publish, unless *again*, and report; return the page, and the folder of the jobs' outputs."""

    def make(*options, again=False):
        mart, page = str(tmp_path / "mart"), tmp_path / "reports" / "page.html"
        if not again:
            publish(mart, options)
        assert main(["report", "--mart", mart, "--out", str(page)]) == 0
        return page.read_text(), tmp_path / "reports" / "page.html.data"

    def publish(mart, options):
        primary.replicate()
        assert main(["publish", "--replica", primary.url, "--mart", mart, "--cache-dir", str(cache), *options]) == 0
        manifest = Path(mart, "current", "manifest.json")  # the position's instant is that of Litestream's last write
        manifest.write_text(
            re.sub(r'"timestamp": "[^"]*"', '"timestamp": "2025-10-09T18:00:00Z"', manifest.read_text())
        )

    return make


def fill(primary):
    primary.receive(3, status="dead")
    primary.receive(2, status="completed", at=NOON - DAY_MS)
    primary.receive(1, channel="discord")
    primary.execute(
        "INSERT INTO events (type, response_id, channel, created_at) VALUES (?, ?, 'discord', ?)",
        [("response_ready", 1, NOON), ("response_acked", 1, NOON + 250), ("response_dead", 2, NOON + 9)],
    )
    primary.execute(
        "INSERT INTO events (type, message_id, agent, data, created_at) VALUES (?, 'm_0', 'a', ?, ?)",
        [
            ("message_received", "{}", NOON),
            ("chain_step_start", '{"batch": ["m_0"], "attempt": 1}', NOON + 400),
            ("chain_step_done", '{"batch": ["m_0"]}', NOON + 3400),
        ],
    )


@pytest.mark.parametrize("options", [(), ("--without-text",)], ids=["whole", "without_text"])
def test_the_page_is_made_of_what_the_jobs_wrote(spark, primary, make, options, capsys):
    fill(primary)
    html, data = make(*options)
    found = {job.name: rows_of(data / job.name, date(2025, 10, 1), job) for job in DAILY_JOBS}
    volume = sorted(found["message_volume"], key=lambda row: (row["day"], row["channel"]))
    assert [(str(row["day"]), row["channel"], row["received"], row["dead"]) for row in volume] == [
        ("2025-10-08", "telegram", 2, 0),
        ("2025-10-09", "discord", 1, 0),
        ("2025-10-09", "telegram", 3, 3),
    ]
    (times,) = found["turn_times_of_days"]
    assert (times["agent"], times["waited"], times["wait_p95_ms"], times["turn_p50_ms"]) == ("a", 1, 400, 3000)
    assert sorted((row["due_at"], str(row["ended"]), row["messages"]) for row in found["backlog"]) == [
        (NOON - DAY_MS - DAY_MS // 2, "2025-10-08", 2),
        (NOON - DAY_MS // 2, "2025-10-09", 3),
        (NOON, "None", 1),
    ]
    assert [(row["delivered"], row["dead"], row["delivery_p50_ms"]) for row in found["deliveries"]] == [(1, 1, 250)]
    assert "grüße" not in html
    assert re.search(r"<h1 [^>]*verdict wrong", html)
    assert "1 message has been due for more than an hour" in html
    assert "1 message has been due" in capsys.readouterr().out


def test_a_second_page_computes_only_changed_days_and_none_without_a_new_generation(primary, make):
    primary.receive(2, status="completed")
    _, data = make()
    primary.receive(1, status="completed", at=NOON - DAY_MS)
    make()
    written = json.loads((data / "failures" / "manifest.json").read_text())
    assert written["days_written"] == ["2025-10-08"]
    made = (data / "failures" / "manifest.json").stat().st_mtime_ns
    make(again=True)
    assert (data / "failures" / "manifest.json").stat().st_mtime_ns == made


def test_an_empty_mart_has_a_page_that_says_so(primary, make):
    html, _ = make()
    assert "No message has come." in html
    assert 'class="plot"' not in html
