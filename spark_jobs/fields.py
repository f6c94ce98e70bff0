"""The columns of a read: those of the table, those of the position, and those that a reader chooses."""

from collections.abc import Sequence

from pyspark.sql.types import StringType, StructField, StructType

from spark_jobs.copies import OptionInvalid, ReplicaTable

POSITION_NAMES = ("_txid", "_committed_at", "_epoch")
POSITION_FIELDS = tuple(StructField(name, StringType(), nullable=False) for name in POSITION_NAMES)
"""Columns that tell the position of a read; in a read only where ``columns`` names them."""


def check_schema(asked: StructType, fields: Sequence[StructField], table: str) -> None:
    """Refuse a schema that is not the replica's."""
    declared = {field.name: field.dataType for field in fields}
    for field in asked.fields:
        if declared.get(field.name) != field.dataType:
            raise OptionInvalid(
                f"column {field.name!r} {field.dataType.simpleString()} is not in table {table!r}: leave out "
                ".schema(...), because the schema comes from the replica, and choose with the option 'columns'"
            )


def readable_fields(table: ReplicaTable) -> tuple[StructField, ...]:
    """What ``columns`` may name: the table's own columns, and those of the position."""
    own = {field.name for field in table.fields}
    return (*table.fields, *(field for field in POSITION_FIELDS if field.name not in own))


def choose_fields(table: ReplicaTable, columns: str | None) -> tuple[StructField, ...]:
    """The fields that the comma-separated *columns* name, in that order; None means the table's own."""
    return table.fields if columns is None else chosen_fields(table.name, readable_fields(table), columns)


def chosen_fields(table: str, fields: Sequence[StructField], columns: str | None) -> tuple[StructField, ...]:
    """Those of *fields* that the comma-separated *columns* name, in that order; None means all."""
    if columns is None:
        return tuple(fields)
    known = {field.name: field for field in fields}
    names = [name.strip() for name in columns.split(",") if name.strip()]
    missing = [name for name in names if name not in known]
    if missing or not names or len(set(names)) < len(names):
        what = f"no columns {', '.join(missing)}" if missing else "been asked for no columns, or for one twice"
        raise OptionInvalid(f"table {table!r} has {what}; its columns: {', '.join(known)}")
    return tuple(known[name] for name in names)
