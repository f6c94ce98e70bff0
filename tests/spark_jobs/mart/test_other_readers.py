"""What docs/spark.md shows for readers without Spark, run as it stands there, on a mart."""

import re
from pathlib import Path

import duckdb
import pandas
import pytest

from spark_jobs.__main__ import main

DOCS = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
DAY_MS = 86_400_000


def shown(language, word):
    """The one snippet of that language with that word, for this mart in place of the one of the page."""
    (found,) = [text for text in re.findall(rf"```{language}\n(.*?)```", DOCS, re.DOTALL) if word in text]
    return found


@pytest.fixture
def mart(primary, cache, tmp_path):
    """Two generations: the second has one more day, and one message of the first day has changed."""
    place = tmp_path / "mart"

    def publish():
        primary.replicate()
        common = ["--replica", primary.url, "--cache-dir", str(cache)]
        assert main(["publish", *common, "--mart", str(place)]) == 0

    primary.receive(3)
    publish()
    primary.execute("UPDATE messages SET status = 'completed' WHERE id = 2")
    done = "INSERT INTO events (type, message_id, created_at) VALUES ('chain_step_done', 'm_1', ?)"
    primary.execute(done, [(NOON + DAY_MS,)])
    primary.receive(2, channel="discord", at=NOON + DAY_MS)
    publish()
    return place


def test_duckdb_reads_a_mart(mart):
    query = shown("sql", "DuckDB").replace("/srv/mart", str(mart))
    rows = sorted((str(day), channel, count) for day, channel, count in duckdb.sql(query).fetchall())
    assert rows == [("2025-10-09", "telegram", 3), ("2025-10-10", "discord", 2)]


def test_pandas_reads_a_mart(mart):
    snippet = shown("python", "pandas.read_parquet").replace("/srv/mart", str(mart))
    frame = eval(snippet, {"pandas": pandas})  # noqa: S307 - our own page
    assert sorted(frame["id"]) == [1, 2, 3, 4, 5]
    assert frame.loc[frame["id"] == 2, "status"].item() == "completed"
    assert str(frame["created_at"].min()) == "2025-10-09 12:00:00+00:00"
