"""``spark.read.format("litestream")``: the tables of a Litestream replica as DataFrames.

::

    replica = open_replica(session("report"), "s3://bucket/prefix?endpoint=http://127.0.0.1:9000")
    replica.table("messages", columns=["id", "channel"]).groupBy("channel").count().show()

or, after ``register(spark)``, the plain form, which needs only ``replica`` and ``table``::

    spark.read.format("litestream").option("replica", URL).option("table", "messages").load()

Options: ``replica`` the URL; ``table``; ``columns`` comma-separated (name them: Spark does not tell a Python source
which columns it needs, so without them even ``count()`` reads all); ``txid`` or ``timestamp`` of the past, ``epoch``
to stay in one history;
``partitions`` (default: four a core, fewer for small tables); ``cache_dir``; ``instants``: ``timestamp`` (default) or
``millis``; ``position`` an exact pin, as ``open_replica`` sets it; ``changes_from`` and ``changes_to``: the rows that
changed between two positions, in place of those at one (``spark_jobs/history/reader.py``).

- A whole read uses one position. Spark reads the schema in one process, plans in a second and reads in others; the pin
  is made with the schema and travels pickled with the source.
- The position that was read is in three more columns, which ``columns`` may name: ``_txid``, ``_committed_at`` (of the
  commit) and ``_epoch`` (empty where the replica has none). The log has it too: ``replica.pinned``.
- Types come from ``STRICT`` declarations: INTEGER long, TEXT string, REAL double, BLOB binary. Other tables are
  refused, because any of their rows may hold any type.
- Instants, which the database keeps as milliseconds UTC, are timestamps: the INTEGER columns whose names end in
  ``_at``, and those of ``INSTANTS``. With ``instants=millis`` they are longs, as stored.
- Rows are read as Arrow batches by ADBC from the restored file, split by ranges of rowid; a WITHOUT ROWID table is one
  partition. Comparisons with literals run inside SQLite, bound as parameters.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from spark_jobs import replicas
from spark_jobs.copies import OptionInvalid, ReplicaTable, describe
from spark_jobs.fields import check_schema, choose_fields, chosen_fields, readable_fields
from spark_jobs.history.reader import AskedChanges
from spark_jobs.replicas import Pin
from spark_jobs.streaming.reader import LitestreamStreamReader
from spark_jobs.table_reader import LitestreamReader

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

_log = logging.getLogger("postroom.replicas")
_CHANGES = ("changes_from", "changes_to")
_PAST = ("txid", "timestamp", "epoch", "position")
_OPTIONS = ("replica", "table", "columns", *_PAST, "partitions", "cache_dir", "instants")
_STREAM_OPTIONS = ("start", "max_rows", "on_hole", "on_new_epoch")


@dataclass(frozen=True, slots=True)
class Replica:
    """One position of a replica, restored on this host: its tables as DataFrames."""

    spark: SparkSession
    pin: Pin
    path: Path
    cache_dir: str | None

    def table(self, name: str, *, columns: Sequence[str] = (), partitions: int | None = None) -> DataFrame:
        """The table *name*; only *columns* are read, if given.

        Raises:
            OptionInvalid: no such table or column; the message lists the existing ones.
        """
        options = {"replica": self.pin.url, "position": self.pin.position, "table": name}
        if columns:
            options["columns"] = ",".join(columns)
        if partitions is not None:
            options["partitions"] = str(partitions)
        if self.cache_dir is not None:
            options["cache_dir"] = self.cache_dir
        choose_fields(describe(self.path, name), options.get("columns"))  # here no Java wraps the error
        return self.spark.read.format(LitestreamSource.name()).options(**options).load()


def register(spark: SparkSession) -> None:
    """Register the format, and allow filter pushdown, which Spark refuses by default with an error."""
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(LitestreamSource)


def open_replica(
    spark: SparkSession,
    replica: str | Pin,
    *,
    txid: str | None = None,
    timestamp: str | datetime | None = None,
    epoch: str | None = None,
    cache_dir: str | Path | None = None,
) -> Replica:
    """Pin a position of *replica* and restore it here; every table is read at this one position.

    Args:
        replica: its URL, or a pin made before.
        txid, timestamp, epoch: a position of the past; only with a URL.

    Raises:
        as :func:`spark_jobs.replicas.resolve` and :func:`spark_jobs.replicas.ensure_local`.
    """
    if isinstance(replica, Pin):
        pin, path = replica, replicas.ensure_local(replica, cache_dir)
    else:
        pin, path = replicas.restore_pinned(replica, txid=txid, timestamp=timestamp, epoch=epoch, cache_dir=cache_dir)
    _tell(pin)
    register(spark)
    return Replica(spark, pin, path, None if cache_dir is None else str(Path(cache_dir).expanduser().absolute()))


def changes(
    spark: SparkSession,
    replica: str,
    table: str,
    begin: str,
    end: str | None = None,
    *,
    columns: Sequence[str] = (),
    epoch: str | None = None,
    cache_dir: str | None = None,
) -> DataFrame:
    """The rows of *table* that changed between two positions of *replica*.

    Args:
        begin, end: an instant, a txid, or ``txid@epoch``; *end* is the newest position where it is None.
        columns: only these; they may also be ``_change_type``, ``_changed`` (the names of the changed columns),
            ``_txid``, ``_committed_at`` and ``_epoch`` (of the later position).

    Raises:
        OptionInvalid: no such table or column, or its rows can't be matched.
        as :meth:`spark_jobs.history.spans.Span.of`.
    """
    asked = AskedChanges.of(replica, table, begin, end, epoch=epoch, cache_dir=cache_dir)
    chosen_fields(table, asked.fields, ",".join(columns) or None)  # here no Java wraps the error
    register(spark)
    options = {
        "replica": replica,
        "table": table,
        "changes_from": asked.span.old.pin.position,
        "changes_to": asked.span.new.pin.position,
        "columns": ",".join(columns) or None,
        "cache_dir": None if cache_dir is None else str(Path(cache_dir).expanduser().absolute()),
    }
    given = {name: value for name, value in options.items() if value is not None}
    return spark.read.format(LitestreamSource.name()).options(**given).load()


def _tell(pin: Pin) -> None:
    _log.info("replica.pinned txid=%s timestamp=%s epoch=%s", pin.txid, pin.timestamp, pin.epoch or "-")


class LitestreamSource(DataSource):
    """The source behind ``format("litestream")``."""

    @classmethod
    def name(cls) -> str:
        return "litestream"

    def schema(self) -> StructType:
        columns = self.options.get("columns")
        if (asked := self._changes()) is not None:
            return StructType(list(chosen_fields(asked.table.name, asked.fields, columns)))
        return StructType(list(choose_fields(self._describe(), columns)))

    def reader(self, schema: StructType) -> DataSourceReader:
        self._refuse(_STREAM_OPTIONS, "is for spark.readStream; with spark.read leave it out")
        if (asked := self._changes()) is not None:
            check_schema(schema, asked.fields, asked.table.name)
            return asked.reader(schema, self._partitions())
        table = self._describe()
        check_schema(schema, readable_fields(table), table.name)
        return LitestreamReader(self._pin(), table, schema, self.options.get("cache_dir"), self._partitions())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        self._refuse((*_PAST, *_CHANGES), "is for spark.read; a stream begins where the option 'start' says")
        return LitestreamStreamReader(schema, self._required("replica"), self._required("table"), self.options)

    def _refuse(self, names: Sequence[str], why: str) -> None:
        for name in names:
            if name in self.options:
                raise OptionInvalid(f"the option {name!r} {why}")

    def _changes(self) -> AskedChanges | None:
        """What was asked for where it is the rows between two positions, pinned once as with :meth:`_pin`."""
        self._refuse_unknown()
        if not any(name in self.options for name in _CHANGES):
            return None
        self._refuse(("txid", "timestamp", "position"), "is for one position; changes_from and changes_to name two")
        known: AskedChanges | None = self.__dict__.get("_asked_changes")
        if known is None:
            url, begin, name = (self._required(each) for each in ("replica", "changes_from", "table"))
            end, epoch, cache_dir = (self.options.get(each) for each in ("changes_to", "epoch", "cache_dir"))
            known = AskedChanges.of(
                url, name, begin, end, epoch=epoch, cache_dir=cache_dir, has_timestamps=self._has_timestamps()
            )
            self.__dict__["_asked_changes"] = known
        return known

    def _refuse_unknown(self) -> None:
        known = (*_OPTIONS, *_CHANGES, *_STREAM_OPTIONS)
        unknown = sorted(set(map(str.lower, self.options)) - set(known))
        if unknown:
            raise OptionInvalid(f"unknown options: {', '.join(unknown)}; known: {', '.join(known)}")

    def _describe(self) -> ReplicaTable:
        path = replicas.ensure_local(self._pin(), self.options.get("cache_dir"))
        return describe(path, self._required("table"), has_timestamps=self._has_timestamps())

    def _has_timestamps(self) -> bool:
        wanted = self.options.get("instants", "timestamp")
        if wanted not in ("timestamp", "millis"):
            raise OptionInvalid(f"instants is {wanted!r}: write timestamp or millis")
        return wanted == "timestamp"

    def _pin(self) -> Pin:
        """The pin, resolved once and kept on the instance, which Spark pickles after it has read the schema."""
        known: Pin | None = self.__dict__.get("_pinned")
        if known is not None:
            return known
        url = self._required("replica")
        position = self.options.get("position")
        if position is not None:
            replicas.check_url(url)
            pin = Pin.at(url, position)
        else:
            pin, _ = replicas.restore_pinned(
                url,
                txid=self.options.get("txid"),
                timestamp=self.options.get("timestamp"),
                epoch=self.options.get("epoch"),
                cache_dir=self.options.get("cache_dir"),
            )
            _tell(pin)
        self.__dict__["_pinned"] = pin
        return pin

    def _required(self, name: str) -> str:
        value = self.options.get(name)
        if not value:
            raise OptionInvalid(f'the option {name!r} is missing: .option("{name}", ...)')
        return value

    def _partitions(self) -> int | None:
        text = self.options.get("partitions")
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10_000:
            raise OptionInvalid(f"partitions is {text!r}: write a whole number from 1 to 10000")
        return int(text)
