"""Through Spark itself: a checkpoint, AvailableNow, and errors that people see."""

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def follow(spark, primary, cache, tmp_path):
    """Run a stream of events into a folder until it has what there is; return all that the folder holds."""

    def run(**options):
        options = {"replica": primary.url, "table": "events", "cache_dir": str(cache)} | options
        events = spark.readStream.format("litestream").options(**options).load()
        writer = events.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(str(tmp_path / "out"), format="parquet").awaitTermination()
        return sorted(tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).select("id", "type").collect())

    return run


def test_runs_one_after_another_neither_lose_nor_repeat_a_row(primary, follow):
    primary.begin_prefix("first", "epoch_one")
    primary.happen("a", "b", "c")
    primary.replicate()
    assert follow(max_rows="2") == [(1, "a"), (2, "b"), (3, "c")]
    primary.happen("d")
    primary.replicate()
    assert follow() == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]

    primary.begin_prefix("second", "epoch_two")
    primary.happen("e")
    primary.replicate()
    with pytest.raises(Exception, match=r"epoch is epoch_two.*on_new_epoch=cross"):
        follow()
    assert follow(on_new_epoch="cross")[3:] == [(4, "d"), (5, "e")]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"table": "messages"}, "a stream follows only tables that only grow"),
        ({"txid": "1"}, "the option 'txid' is for spark.read; a stream begins where the option 'start' says"),
        ({"max_row": "5"}, "unknown options: max_row"),
    ],
)
def test_a_stream_that_can_not_be_is_refused(primary, follow, options, sentence):
    primary.replicate()
    with pytest.raises(Exception, match=sentence):
        follow(**options)


def test_options_of_a_stream_are_refused_for_one_read(spark, primary, cache):
    primary.replicate()
    options = {"replica": primary.url, "table": "events", "cache_dir": str(cache), "max_rows": "5"}
    with pytest.raises(Exception, match=r"the option 'max_rows' is for spark.readStream"):
        spark.read.format("litestream").options(**options).load().collect()
