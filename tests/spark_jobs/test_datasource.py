import math
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)
from pyspark.sql.types import StructType

from spark_jobs import replicas
from spark_jobs.copies import CopyUnreadable, OptionInvalid, describe
from spark_jobs.datasource import PUSHDOWN, open_replica
from spark_jobs.fields import choose_fields
from spark_jobs.table_reader import LitestreamReader

pytestmark = pytest.mark.spark

NOON = 1_760_011_200_000
BEGIN = datetime(1970, 1, 1, tzinfo=UTC)

SAMPLES = """
    CREATE TABLE samples (
        id INTEGER PRIMARY KEY, n INTEGER, r REAL, t TEXT, b BLOB, "select ""x"" naïve" TEXT NOT NULL DEFAULT '',
        c TEXT COLLATE NOCASE
    ) STRICT;
    CREATE TABLE late (rowid TEXT, _rowid_ TEXT, oid INTEGER) STRICT;   -- its rowid has no name
    CREATE TABLE shadow (rowid TEXT, n INTEGER) STRICT;
    CREATE TABLE "odd ""table"" 🙂" (a TEXT, b INTEGER, PRIMARY KEY (a, b)) STRICT, WITHOUT ROWID;
    CREATE TABLE sparse (id INTEGER PRIMARY KEY, t TEXT) STRICT;
    CREATE TABLE loose (id INTEGER PRIMARY KEY, t TEXT);
    CREATE TABLE anything (id INTEGER PRIMARY KEY, v ANY) STRICT;
    CREATE TABLE instants (id INTEGER PRIMARY KEY, seen_at INTEGER, until INTEGER, told_at TEXT) STRICT;
    CREATE TABLE gap (id INTEGER PRIMARY KEY) STRICT;
    INSERT INTO gap WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
        SELECT i + 10000000 * (i > 20000) FROM n;
    INSERT INTO instants VALUES (1, NULL, NULL, 'noon'), (2, 1774526400123, -1, ''), (3, 0, 253402300799999, NULL);
    INSERT INTO late VALUES ('a', 'b', 3), (NULL, NULL, NULL);
    INSERT INTO shadow VALUES ('zero', 0), ('one', 1);
    INSERT INTO "odd ""table"" 🙂" VALUES ('x', 1), ('y', 2);
    INSERT INTO sparse VALUES (-9223372036854775808, 'low'), (0, 'mid'), (9223372036854775807, 'high');
"""


def fill(primary, rows=50_000):
    """Every column of ``samples`` begins with more NULLs than Arrow's first batch holds."""
    for statement in (line for line in SAMPLES.split(";\n") if line.strip()):
        primary.execute(statement)
    columns = "(id, n, r, t, b, c)"
    nulls = [(i, None, None, None, None, None) for i in range(1, 20_001)]
    values = [
        (
            i,
            i * 2**32 * (-1) ** i,
            i / 3,
            f"grüße {i} 🙂" if i % 2 else "",
            i.to_bytes(4, "big") if i % 3 else b"",
            "AbC" if i % 2 else "abc",
        )
        for i in range(20_001, rows + 1)
    ]
    primary.execute(f"INSERT INTO samples {columns} VALUES (?, ?, ?, ?, ?, ?)", nulls + values)
    primary.receive(5)
    primary.replicate()


@pytest.fixture(scope="module")
def filled(tmp_path_factory, new_primary):
    """A replicated primary with all kinds of tables and values."""
    folder = tmp_path_factory.mktemp("filled")
    primary = new_primary(folder / "primary.db", f"file://{folder}/replica")
    fill(primary)
    return primary


@pytest.fixture(scope="module")
def replica(spark, filled):
    return open_replica(spark, filled.url, cache_dir=filled.path.parent / "cache")


def reader_of(replica, table, *filters, columns=None, partitions=None):
    """The reader that Spark would make, and the filters that it handed back."""
    described = describe(replica.path, table)
    schema = StructType(list(choose_fields(described, columns)))
    reader = LitestreamReader(replica.pin, described, schema, replica.cache_dir, partitions)
    return reader, list(reader.pushFilters(list(filters)))


def rows_read(reader):
    """As the database has them: instants as milliseconds."""
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [tuple(map(as_stored, row.values())) for batch in batches for row in batch.to_pylist()]


def as_stored(value):
    return (value - BEGIN) // timedelta(milliseconds=1) if isinstance(value, datetime) else value


def tables_of(primary):
    names = [row[0] for row in primary.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    hidden = ("sqlite_", "_litestream_")
    return [name for name in names if not name.startswith(hidden) and name not in ("loose", "anything")]


def test_every_table_reads_as_sqlite_reads_it(replica, filled):
    """All types, NULL-first columns, empty tables, no rowid, odd names, 64-bit integers."""
    names = tables_of(filled)
    assert {"messages", "meta", "responses", "events", "samples"} <= set(names)
    for name in names:
        quoted = '"' + name.replace('"', '""') + '"'
        expected = filled.execute(f"SELECT * FROM {quoted}")
        assert sorted(rows_read(reader_of(replica, name)[0]), key=repr) == sorted(expected, key=repr), name


@pytest.mark.parametrize("name", ["messages", "responses", "agents", "meta", "samples", 'odd "table" 🙂'])
def test_spark_sees_what_the_reader_reads(replica, name):
    through_spark = [tuple(map(as_stored, row.values())) for row in replica.table(name).toArrow().to_pylist()]
    assert sorted(through_spark, key=repr) == sorted(rows_read(reader_of(replica, name)[0]), key=repr)


def test_the_schema_is_what_the_tables_declare(replica):
    fields = {field.name: field for field in replica.table("samples").schema}
    assert {name: field.dataType.simpleString() for name, field in fields.items()} == {
        "id": "bigint", "n": "bigint", "r": "double", "t": "string", "b": "binary",
        'select "x" naïve': "string", "c": "string",
    }  # fmt: skip
    assert [name for name, field in fields.items() if not field.nullable] == ["id", 'select "x" naïve']
    assert [field.nullable for field in replica.table('odd "table" 🙂').schema] == [False, False]


def test_instants_are_timestamps_and_filters_on_them_are_pushed(replica):
    table = replica.table("instants")
    assert [field.dataType.simpleString() for field in table.schema] == ["bigint", "timestamp", "timestamp", "string"]
    seen = table.select(F.date_format("seen_at", "yyyy-MM-dd HH:mm:ss.SSS").alias("at")).collect()
    assert [row["at"] for row in seen] == [None, "2026-03-26 12:00:00.123", "1970-01-01 00:00:00.000"]
    noon = datetime(2026, 3, 26, 12, tzinfo=UTC)
    reader, back = reader_of(replica, "instants", GreaterThan(("seen_at",), noon), columns="id")
    assert (back, rows_read(reader)) == ([], [(2,)])
    assert table.filter(F.col("seen_at") > F.lit("2026-03-26T12:00:00Z").cast("timestamp")).count() == 1


def test_an_instant_between_two_milliseconds_is_compared_by_spark(replica):
    asked = GreaterThan(("seen_at",), datetime(2026, 3, 26, 12, 0, 0, 122_999, tzinfo=UTC))
    assert reader_of(replica, "instants", asked)[1] == [asked]


def test_instants_can_be_read_as_they_are_stored(spark, replica, filled):
    options = {"replica": filled.url, "table": "instants", "instants": "millis", "cache_dir": replica.cache_dir}
    table = spark.read.format("litestream").options(**options).load()
    assert [tuple(row) for row in table.select("seen_at", "until").collect()] == filled.execute(
        "SELECT seen_at, until FROM instants"
    )


def test_columns_are_read_in_the_order_they_are_named(replica):
    table = replica.table("messages", columns=["status", "id"])
    assert table.columns == ["status", "id"]
    assert sorted(map(tuple, table.collect())) == [("pending", id_) for id_ in range(1, 6)]


@pytest.mark.parametrize("partitions", [1, 7, 64])
def test_partitions_cut_the_rows_without_loss_or_overlap(replica, partitions):
    reader, _ = reader_of(replica, "samples", columns="id", partitions=partitions)
    parts = reader.partitions()
    assert len(parts) == partitions
    assert sorted(rows_read(reader)) == [(id_,) for id_ in range(1, 50_001)]


def test_a_wide_gap_of_ids_makes_no_partition_larger(replica):
    """As a restore leaves it in ``events``."""
    reader, _ = reader_of(replica, "gap", partitions=3)
    assert [(part.low, part.high) for part in reader.partitions()] == [
        (1, 10_000), (10_001, 10_020_000), (10_020_001, 10_030_000),
    ]  # fmt: skip
    assert len(rows_read(reader)) == 30_000
    assert len(reader_of(replica, "gap", partitions=1)[0].partitions()) == 1


def test_partitions_are_tasks_of_spark(replica):
    table = replica.table("samples", columns=["id"], partitions=7)
    assert table.select(F.spark_partition_id().alias("p")).distinct().count() == 7


def test_small_tables_are_one_partition_and_the_widest_span_is_no_trouble(replica):
    assert len(reader_of(replica, "messages")[0].partitions()) == 1
    reader, _ = reader_of(replica, "sparse", partitions=4)
    assert sorted(row[1] for row in rows_read(reader)) == ["high", "low", "mid"]


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        (EqualTo(("t",), "grüße 20001 🙂"), "t = 'grüße 20001 🙂'"),
        (EqualTo(("c",), "abc"), "c = 'abc' COLLATE BINARY"),
        (GreaterThan(("c",), "AbC"), "c > 'AbC' COLLATE BINARY"),
        (EqualTo(("b",), (20_002).to_bytes(4, "big")), "b = x'00004e22'"),
        (EqualNullSafe(("n",), 20_002 * 2**32), "n = 20002 * 4294967296"),
        (LessThan(("n",), -(2**40)), "n < -1099511627776"),
        (LessThanOrEqual(("r",), 6667.0), "r <= 6667.0"),
        (GreaterThan(("r",), math.inf), "r > 9e999"),
        (GreaterThanOrEqual(("id",), 49_990), "id >= 49990"),
        (In(("id",), (1, 20_001, 77_777)), "id IN (1, 20001)"),
        (IsNull(("t",)), "t IS NULL"),
        (IsNotNull(("r",)), "r IS NOT NULL"),
    ],
)
def test_a_pushed_filter_reads_only_the_rows_it_lets_through(replica, filled, asked, where):
    reader, back = reader_of(replica, "samples", asked, columns="id")
    assert back == []
    expected = filled.execute(f"SELECT id FROM samples WHERE {where}")
    assert sorted(rows_read(reader)) == expected
    assert len(expected) < 50_000


@pytest.mark.parametrize(
    "asked",
    [
        EqualTo(("n",), "5"),
        EqualTo(("n",), 5.0),
        EqualTo(("n",), True),
        EqualTo(("t",), 5),
        EqualTo(("r",), 5),
        EqualTo(("r",), math.nan),
        EqualTo(("n",), 2**63),
        EqualTo(("t",), None),
        In(("n",), (1, None)),
        In(("n",), ()),
        Not(EqualTo(("n",), 5)),
        StringContains(("t",), "grüße"),
        EqualTo(("missing",), 5),
        EqualTo(("t", "inner"), "x"),
    ],
)
def test_filters_that_sqlite_may_answer_differently_stay_with_spark(replica, asked):
    reader, back = reader_of(replica, "samples", asked)
    assert back == [asked]
    assert reader.conditions == []


def test_a_filter_on_the_key_narrows_what_is_cut_into_partitions(replica):
    filters = (GreaterThan(("id",), 30_000), LessThanOrEqual(("id",), 30_010))
    reader, _ = reader_of(replica, "samples", *filters, partitions=5)
    assert [(part.low, part.high) for part in reader.partitions()] == [
        (30_001, 30_002), (30_003, 30_004), (30_005, 30_006), (30_007, 30_008), (30_009, 30_010),
    ]  # fmt: skip
    nothing, _ = reader_of(replica, "samples", EqualTo(("id",), -5))
    assert rows_read(nothing) == []


def test_filters_in_spark_give_what_sqlite_gives(replica, filled):
    """Pushed, not pushed, and both at once."""
    table = replica.table("samples", columns=["id", "n", "t", "c"])
    found = table.filter("id > 40000 AND t LIKE 'grüße%' AND n < 0 AND c = 'AbC' AND NOT id IN (40001, 40003)").count()
    (expected,) = filled.execute(
        "SELECT count(*) FROM samples WHERE id > 40000 AND t GLOB 'grüße*' AND n < 0 AND c = 'AbC' COLLATE BINARY"
        " AND id NOT IN (40001, 40003)"
    )[0]
    assert found == expected > 0


def test_the_plain_form_keeps_one_position_for_the_whole_read(spark, primary, cache):
    """Spark asks for the schema and plans in different processes, any time apart."""
    primary.receive(3)
    primary.replicate()

    def load(**options):
        options = {"replica": primary.url, "table": "messages", "cache_dir": str(cache)} | options
        return spark.read.format("litestream").options(**options).load()

    before = load()
    first = replicas.resolve(primary.url)
    primary.receive(2)
    primary.replicate()

    assert before.count() == 3
    assert load().count() == 5
    assert load(txid=first.txid, columns="id").count() == 3


def test_several_tables_are_read_at_one_position(spark, primary, cache):
    primary.receive(3)
    primary.replicate()
    replica = open_replica(spark, primary.url, cache_dir=cache)
    primary.receive(1)
    primary.replicate()
    assert replica.table("messages", columns=["id"]).count() == 3
    assert open_replica(spark, replica.pin, cache_dir=cache).path == replica.path


def test_the_position_that_was_read_is_told_in_columns(spark, primary, cache):
    primary.begin_prefix("first", "epoch_one")
    primary.receive(2)
    primary.replicate()
    options = {"replica": primary.url, "table": "messages", "columns": "_txid,id,_epoch,_committed_at"}
    table = spark.read.format("litestream").options(**options, cache_dir=str(cache), epoch="epoch_one").load()
    pin = replicas.resolve(primary.url)
    read = sorted(tuple(row) for row in table.filter("id > 0 AND _epoch = 'first'").collect())
    assert read == [(pin.txid, id_, "first", pin.timestamp) for id_ in (1, 2)]


def test_the_position_is_no_column_unless_it_is_named(replica):
    assert not [name for name in replica.table("messages").columns if name.startswith("_")]


@pytest.mark.parametrize("migrations", [1, 2, 12])
def test_a_replica_of_an_earlier_schema_is_read_as_it_was(new_primary, tmp_path, migrations):
    primary = new_primary(tmp_path / "old.db", f"file://{tmp_path}/replica", migrations)
    primary.execute("INSERT INTO events (type, agent, created_at) VALUES (?, ?, ?)", [("grüße", None, NOON)])
    primary.replicate()
    pin, path = replicas.restore_pinned(primary.url, cache_dir=tmp_path / "cache")
    for name in tables_of(primary):
        described = describe(path, name)
        reader = LitestreamReader(pin, described, StructType(list(described.fields)), str(tmp_path / "cache"))
        assert sorted(rows_read(reader), key=repr) == sorted(primary.execute(f'SELECT * FROM "{name}"'), key=repr)
    with pytest.raises(OptionInvalid, match=r"no table 'tool_calls'; its tables: .*events"):
        describe(path, "tool_calls")


def test_it_reads_from_s3(spark, make_primary, s3, cache):
    primary = make_primary(f"s3://bucket/datasource?endpoint={s3}")
    primary.receive(4)
    primary.replicate()
    messages = open_replica(spark, primary.url, cache_dir=cache).table("messages", columns=["id", "message"])
    assert [row.message for row in messages.collect()] == ["grüße 🙂"] * 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "the option 'replica' is missing"),
        ({"replica": "{url}"}, "the option 'table' is missing"),
        ({"replica": "{url}", "table": "message"}, r"no table 'message'; its tables: .*messages, meta"),
        ({"replica": "{url}", "table": 'messages"; DROP TABLE messages'}, "has no table"),
        ({"replica": "{url}", "table": "loose"}, "not STRICT"),
        ({"replica": "{url}", "table": "anything"}, "type ANY, which has no Spark type: v"),
        ({"replica": "{url}", "table": "meta", "columns": "key,valeu"}, "no columns valeu; its columns: key, value"),
        ({"replica": "{url}", "table": "meta", "column": "key"}, "unknown options: column; known: replica, table"),
        ({"replica": "file:///nowhere", "table": "meta"}, "there is no replica at file:///nowhere"),
        ({"replica": "s3://me:secret@bucket/x", "table": "meta"}, "credentials do not belong in a replica's URL"),
    ],
)
def test_every_mistake_gets_a_sentence(spark, filled, options, sentence):
    options = {name: value.replace("{url}", filled.url) for name, value in options.items()}
    options["cache_dir"] = str(filled.path.parent / "cache")
    with pytest.raises(Exception, match=sentence):
        spark.read.format("litestream").options(**options).load()


def test_partitions_that_are_no_number_are_refused(spark, filled):
    options = {
        "replica": filled.url,
        "table": "meta",
        "partitions": "many",
        "cache_dir": str(filled.path.parent / "cache"),
    }
    with pytest.raises(Exception, match="a whole number from 1 to 10000"):
        spark.read.format("litestream").options(**options).load().collect()


def test_a_given_schema_is_refused_when_it_differs(spark, filled):
    reading = spark.read.format("litestream").option("replica", filled.url).option("table", "meta")
    reading = reading.option("cache_dir", str(filled.path.parent / "cache"))
    assert reading.schema("key string not null").load().columns == ["key"]
    with pytest.raises(Exception, match="column 'key' int is not in table 'meta'"):
        reading.schema("key int").load().collect()


@pytest.mark.parametrize("size", [100, 20_000])
def test_a_copy_that_was_cut_is_told_in_a_sentence(replica, tmp_path, size):
    cut = tmp_path / "cut.db"
    cut.write_bytes(replica.path.read_bytes()[:size])
    with pytest.raises(CopyUnreadable, match=r"cut.db, the copy of the replica .* can't be read .*delete it"):
        describe(cut, "messages")


def test_on_the_driver_mistakes_come_without_java_around_them(replica):
    with pytest.raises(OptionInvalid, match="no table 'mesages'"):
        replica.table("mesages")


def test_without_pushdown_the_error_names_the_setting(spark, replica):
    spark.conf.set(PUSHDOWN, "false")
    try:
        with pytest.raises(Exception, match=PUSHDOWN):
            replica.table("meta").collect()
    finally:
        spark.conf.set(PUSHDOWN, "true")
