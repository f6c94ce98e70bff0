"""``python -m spark_jobs report --mart PLACE --out PAGE``: one HTML page that says how the postroom is doing.

It runs the daily jobs over the mart, for the days that have changed since the last report, and judges their rows.
Exit codes: see :mod:`spark_jobs.command_line`.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from shared.core.time import clock
from spark_jobs.command_line import OutInvalid, parser_of, run_command
from spark_jobs.daily import DailyJob
from spark_jobs.jobs import agent_pairs, backlog, costs, deliveries, failures, message_volume, people, schedules
from spark_jobs.jobs.turn_times import DAY_JOB as TURN_TIMES
from spark_jobs.mart.places import present
from spark_jobs.report.facts import Facts
from spark_jobs.report.judgement import judge, verdict
from spark_jobs.report.outputs import facts_of
from spark_jobs.report.page import page
from spark_jobs.session import SMALL_ROWS, session

JOB = "report"
VOLUME = DailyJob(
    "message_volume",
    "Daily message volume by channel.",
    message_volume.SCHEMA,
    2,
    {"messages": message_volume.COLUMNS},
    message_volume.message_volume,
)
DAILY_JOBS = (
    VOLUME,
    TURN_TIMES,
    backlog.JOB,
    failures.JOB,
    deliveries.JOB,
    schedules.JOB,
    people.JOB,
    agent_pairs.JOB,
    costs.JOB,
)
"""Those whose rows the page shows."""


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, make the page, print what it says; return the exit code."""
    parser = parser_of(JOB, "Make one HTML page that says how the postroom is doing.")
    parser.add_argument("--mart", required=True, metavar="PLACE", help="what `publish` wrote: a folder, or s3://...")
    parser.add_argument("--out", required=True, metavar="PAGE", help="the HTML file to write")
    parser.add_argument(
        "--data", metavar="DIR", help="folder for what the jobs write, for the next report (default: beside the page)"
    )
    options = parser.parse_args(argv)

    def do() -> str:
        out = _check(Path(options.out))
        data = Path(options.data) if options.data else out.with_name(f"{out.name}.data")
        facts = facts_of(options.mart, data, DAILY_JOBS, lambda: _session(options.mart), now_ms=clock.now_ms())
        _write(out, page(facts, options.mart))
        return _said(facts, out)

    return run_command(JOB, do)


def _session(mart: str) -> SparkSession:
    manifest, _, _ = present(mart)
    return session(JOB, is_small=manifest.rows <= SMALL_ROWS)


def _check(out: Path) -> Path:
    """Refuse a place for the page before Spark's ten seconds."""
    if out.is_dir():
        raise OutInvalid(f"{out} is a folder: name the page to write, like --out {out / 'report.html'}")
    try:
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OutInvalid(f"can't write to {out.parent} ({error.strerror}): name another page with --out") from None
    if not os.access(out.parent, os.W_OK):
        raise OutInvalid(f"can't write to {out.parent}: name another page with --out")
    return out


def _write(out: Path, html: str) -> None:
    """Write the page whole or not at all."""
    part = out.with_name(f"{out.name}.part")
    part.write_text(html, encoding="utf-8", errors="backslashreplace")
    part.replace(out)


def _said(facts: Facts, out: Path) -> str:
    found = judge(facts)
    lines = [verdict(facts, found)[1], *(f"- {concern.what}" for concern in found), f"the page: {out.absolute()}"]
    return "\n".join(lines) + "\n"
