"""What docs/spark.md shows for Spark, run as it stands there, on a replica and a mart."""

import re
from pathlib import Path

import pytest

from spark_jobs.__main__ import main
from spark_jobs.datasource import register

pytestmark = [pytest.mark.spark, pytest.mark.long]
DOCS = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


@pytest.fixture
def run(spark, primary, cache, tmp_path, monkeypatch):
    """Run the one snippet that has that word; return its names and the places that stand for those of the page."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    primary.receive(3)
    primary.happen("a", "b")
    primary.replicate()
    register(spark)
    places = {"s3://bucket/prefix": primary.url, "/srv/mart": str(tmp_path / "mart"), "/data/": f"{tmp_path}/"}

    def run(word, **changes):
        (text,) = [each for each in re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL) if word in each]
        for old, new in (*places.items(), *changes.items()):
            text = text.replace(old, new)
        names = {"spark": spark, "URL": primary.url}
        exec(text, names)  # noqa: S102 - our own page
        return names

    return run


def test_a_replica_is_opened_and_counted(run, capsys):
    names = run('open_replica(session("report")')
    said = capsys.readouterr().out
    assert names["replica"].pin.txid in said
    assert re.search(r"\|telegram\|\s+3\|", said)


def test_the_plain_form_needs_two_options(run, spark):
    run('spark.read.format("litestream").option("replica", URL).option("table", "messages").load()')


def test_a_job_is_a_function_for_a_notebook(run, primary, cache, tmp_path, capsys):
    mart = str(tmp_path / "mart")
    primary.execute("UPDATE messages SET sender_id = '42'")
    primary.replicate()
    assert main(["publish", "--replica", primary.url, "--mart", mart, "--cache-dir", str(cache)]) == 0
    run("from spark_jobs.jobs.people import people")
    assert re.search(r"\|2025-10-09\|telegram\|\s+1\|", capsys.readouterr().out)


def test_a_stream_writes_files(run, spark, tmp_path):
    query = run("checkpointLocation", **{'processingTime="30 seconds"': "availableNow=True"})["query"]
    query.awaitTermination()
    assert spark.read.parquet(str(tmp_path / "events")).count() == 2
