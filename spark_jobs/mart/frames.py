"""The tables of a mart as DataFrames, all of one generation."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_jobs.mart.days import as_schema, read_day
from spark_jobs.mart.manifest import DayFiles, MartInvalid, MartManifest
from spark_jobs.mart.places import present
from spark_jobs.mart.types import schema_of, spark_schema_of
from spark_jobs.replicas.bucket import open_bucket


@dataclass(frozen=True, slots=True)
class Mart:
    """One generation of a mart.

    Args:
        place: a folder, or ``s3://bucket/prefix?endpoint=...``.
        base: the folder of the manifest.
    """

    spark: SparkSession
    place: str
    manifest: MartManifest
    base: str

    def table(self, name: str, columns: Sequence[str], days: Collection[str] | None = None) -> DataFrame:
        """The *columns* of a table; only the rows of *days* (``2026-03-01``), if given.

        Raises:
            MartInvalid: the mart has no such table or columns.
        """
        table = self.manifest.tables.get(name)
        missing = [column for column in columns if column not in (table.columns if table else {})]
        if table is None or missing:
            what = f"columns {', '.join(missing)} in table {name}" if table else f"table {name}"
            raise MartInvalid(f"the mart at {self.place.partition('?')[0]} has no {what}")
        chosen = [each for day, each in table.days.items() if days is None or day in days]
        files = [file for each in chosen for file in each.files]
        kinds = {column: table.columns[column] for column in columns}
        schema = spark_schema_of(kinds)
        if not files:
            return self.spark.createDataFrame([], schema)
        if self.place.startswith("s3://"):
            return self._from_bucket(files, kinds)
        return self.spark.read.schema(schema).parquet(*(f"{self.base}/{file}" for file in files))

    def _from_bucket(self, files: list[str], kinds: dict[str, str]) -> DataFrame:
        """Spark has no file system for buckets of its own, so its workers read the files by pyarrow."""
        self.spark.dataSource.register(_BucketFiles)
        options = {"place": self.place, "files": json.dumps(files), "columns": json.dumps(kinds)}
        return self.spark.read.format(_BucketFiles.name()).options(**options).load()


class _BucketFiles(DataSource):
    """Parquet files of a mart in a bucket: a task for each."""

    @classmethod
    def name(cls) -> str:
        return "postroom_mart_files"

    def schema(self) -> StructType:
        return spark_schema_of(json.loads(self.options["columns"]))

    def reader(self, schema: StructType) -> "_BucketReader":
        return _BucketReader(
            self.options["place"], json.loads(self.options["files"]), json.loads(self.options["columns"])
        )


class _BucketReader(DataSourceReader):
    def __init__(self, place: str, files: list[str], kinds: dict[str, str]) -> None:
        self._place, self._files, self._kinds = place, files, kinds

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(file) for file in self._files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        system, base = open_bucket(self._place)
        for rows in read_day(system, base, DayFiles(0, 0, (partition.value,)), list(self._kinds)):
            yield as_schema(rows, schema_of(self._kinds))


def open_mart(spark: SparkSession, place: str) -> Mart:
    """The present generation of the mart at *place*.

    Raises:
        MartInvalid: there is no mart.
    """
    manifest, _, base = present(place)
    return Mart(spark, place, manifest, base)
