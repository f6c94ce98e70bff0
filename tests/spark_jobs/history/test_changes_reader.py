import pickle

import pytest

from spark_jobs import replicas
from spark_jobs.copies import OptionInvalid
from spark_jobs.datasource import LitestreamSource, changes

NOON = 1_760_011_200_000


@pytest.fixture
def ends(primary):
    """A replica in which messages came, changed and went between two positions; the txids of both."""
    primary.receive(30)
    primary.replicate()
    begin = replicas.resolve(primary.url).txid
    primary.execute("UPDATE messages SET status = 'completed' WHERE id <= 10")
    primary.execute("DELETE FROM messages WHERE id > 28")
    primary.receive(5, at=NOON + 1000)
    primary.execute("INSERT INTO rates (key, full_at) VALUES ('a', 1)")
    primary.replicate()
    return begin, replicas.resolve(primary.url).txid


@pytest.fixture
def source(primary, cache, ends):
    options = {"replica": primary.url, "table": "messages", "cache_dir": str(cache)}
    return lambda **more: LitestreamSource({**options, "changes_from": ends[0], **more})


def read(source):
    """All rows, as Spark reads them: the schema and the plan on the driver, each partition in a worker."""
    schema = pickle.loads(pickle.dumps(source)).schema()  # noqa: S301
    reader = pickle.loads(pickle.dumps(source.reader(schema)))  # noqa: S301
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def kinds(rows):
    names = [row["_change_type"] for row in rows]
    return {name: names.count(name) for name in names}


def test_changes_are_read_in_partitions_and_each_row_once(source, ends):
    whole = read(source(partitions="1"))
    assert kinds(whole) == {"insert": 5, "update_preimage": 10, "update_postimage": 10, "delete": 2}
    parted = read(source(partitions="7"))
    assert len(parted) == len(whole)
    assert kinds(parted) == kinds(whole)
    assert {(row["_txid"], row["_changed"]) for row in whole} == {(ends[1], "status"), (ends[1], None)}


def test_columns_and_tables_without_a_rowid_are_read_too(source):
    rows = read(source(columns="id,_change_type,_committed_at"))
    assert set(rows[0]) == {"id", "_change_type", "_committed_at"}
    (rate,) = read(source(table="rates", columns="key,_change_type"))
    assert rate == {"key": "a", "_change_type": "insert"}
    assert read(source(table="events")) == []
    (millis,) = {
        row["created_at"] for row in read(source(columns="created_at,id", instants="millis")) if row["id"] == 1
    }
    assert millis == NOON


REFUSED = [
    ({"txid": "1"}, "the option 'txid' is for one position; changes_from and changes_to name two"),
    ({"columns": "id,nonsense"}, "no columns nonsense; its columns: _change_type, _changed, id,"),
    ({"table": "nonsense"}, "neither position has a table 'nonsense'"),
    ({"changes_from": ""}, "the option 'changes_from' is missing"),
    ({"max_rows": "5"}, "'max_rows' is for spark.readStream"),
]


def test_options_that_do_not_go_together_are_refused(source):
    for options, words in REFUSED:
        with pytest.raises(OptionInvalid, match=words):
            read(source(**options))


def test_a_stream_of_changes_is_refused(source):
    asked = source()
    with pytest.raises(OptionInvalid, match=r"'changes_from' is for spark\.read"):
        asked.streamReader(asked.schema())


@pytest.mark.spark
@pytest.mark.long
def test_spark_reads_changes_by_function_and_by_options(spark, primary, cache, ends):
    frame = changes(spark, primary.url, "messages", *ends, cache_dir=str(cache))
    counted = {row["_change_type"]: row["count"] for row in frame.groupBy("_change_type").count().collect()}
    assert counted == {"insert": 5, "update_preimage": 10, "update_postimage": 10, "delete": 2}
    plain = spark.read.format("litestream").options(
        replica=primary.url,
        table="messages",
        cache_dir=str(cache),
        changes_from=ends[0],
        columns="id,status,_change_type",
    )
    new = plain.load().where("_change_type = 'update_postimage' AND id > 8").orderBy("id").collect()
    assert [(row.id, row.status) for row in new] == [(9, "completed"), (10, "completed")]
    with pytest.raises(OptionInvalid, match="neither position has a table"):
        changes(spark, primary.url, "nonsense", *ends, cache_dir=str(cache))
