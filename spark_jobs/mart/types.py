"""The types of a mart's columns: their names in the manifest, in Arrow, and in Spark."""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

TYPES = {str(kind): kind for kind in (pa.int64(), pa.string(), pa.float64(), pa.binary(), pa.timestamp("us", "UTC"))}
_SPARK: Mapping[str, DataType] = {
    str(pa.int64()): LongType(),
    str(pa.string()): StringType(),
    str(pa.float64()): DoubleType(),
    str(pa.binary()): BinaryType(),
    str(pa.timestamp("us", "UTC")): TimestampType(),
}


def schema_of(columns: Mapping[str, str]) -> pa.Schema:
    """The Arrow schema of a table's columns in the manifest."""
    return pa.schema([pa.field(name, TYPES[kind]) for name, kind in columns.items()])


def spark_schema_of(columns: Mapping[str, str]) -> StructType:
    """The same for Spark."""
    return StructType([StructField(name, _SPARK[kind]) for name, kind in columns.items()])
