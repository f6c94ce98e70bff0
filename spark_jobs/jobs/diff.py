"""``python -m spark_jobs diff --replica URL --from T [--to T]``: which rows changed between two positions.

It needs no Spark session and no Java. Exit codes: see :mod:`spark_jobs.command_line`.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_jobs.command_line import OutInvalid, locked_folder, parser_of, read_manifest, run_command, write_manifest
from spark_jobs.history.changes import TableDiff, change_fields, changed_rows, diff
from spark_jobs.history.diff_text import summary
from spark_jobs.history.spans import Span

JOB = "diff"
_ROWS = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, compare, print the counts; return the exit code."""
    options = _parser().parse_args(argv)

    def do() -> str:
        span = Span.of(options.replica, options.begin, options.end, epoch=options.epoch, cache_dir=options.cache_dir)
        tables = diff(span, options.table)
        said = summary(span, tables, rows=options.rows)
        if options.out is None:
            return said
        return said + _write(Path(options.out), span, tables)

    return run_command(JOB, do)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(JOB, "Tell which rows were inserted, changed and deleted between two positions of a replica.")
    position = "an instant like 2026-03-01T12:00:00Z, or a txid"
    parser.add_argument("--replica", required=True, metavar="URL", help="s3://bucket/prefix?endpoint=... or file:///d")
    parser.add_argument("--from", required=True, dest="begin", metavar="POSITION", help=f"the earlier one: {position}")
    parser.add_argument("--to", dest="end", metavar="POSITION", help=f"the later one: {position}; else the newest")
    parser.add_argument("--epoch", help="only in this history; txid@epoch names the epoch of one position")
    parser.add_argument("--table", action="append", default=[], help="only this one; may be given again")
    parser.add_argument(
        "--rows", type=_count, nargs="?", const=_ROWS, default=0, metavar="N", help=f"show N rows a table ({_ROWS})"
    )
    parser.add_argument("--out", metavar="DIR", help="folder for all changed rows, one Parquet file for each table")
    parser.add_argument("--cache-dir", metavar="DIR", help="where restored replicas are kept (else the user's cache)")
    return parser


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows: write one like 20")
    return int(text)


def _write(out: Path, span: Span, tables: Sequence[TableDiff]) -> str:
    """Write the changed rows and the manifest; files of an earlier diff are replaced."""
    with locked_folder(out):
        _check(out)
        changed = [each for each in tables if each.is_changed]
        for old in out.glob("*.parquet"):
            old.unlink()
        for each in changed:
            _write_table(out, span, each)
        earlier = {"txid": span.old.pin.txid, "timestamp": span.old.pin.timestamp, "epoch": span.old.pin.epoch}
        counts = {each.table.name: asdict(each.counts) for each in tables if each.counts is not None}
        write_manifest(out, JOB, span.new.pin, begins_at=earlier, tables=counts)
    return f"the changed rows of {len(changed)} tables are in {out}\n"


def _write_table(out: Path, span: Span, each: TableDiff) -> None:
    name = each.table.name.replace(os.sep, "_")
    part = out / f"{name}.parquet.part"
    schema = to_arrow_schema(StructType(list(change_fields(each.table))), timezone="UTC")
    with pq.ParquetWriter(part, schema) as writer:
        for batch in changed_rows(span, each.table):
            writer.write_batch(batch)
    part.replace(out / f"{name}.parquet")


def _check(out: Path) -> None:
    """Refuse a folder that holds something else, because its Parquet files would be replaced."""
    manifest = read_manifest(out)
    is_other = manifest is not None and manifest.get("job") != JOB
    if is_other or (manifest is None and any(path.name != ".lock" for path in out.iterdir())):
        raise OutInvalid(f"{out} holds other files than those of a diff: name another folder with --out")
