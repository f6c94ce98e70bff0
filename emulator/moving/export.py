"""Writes what a database and the agents' folders hold into a folder, as of one instant: ``emulator export``.

It reads in one transaction, so that rows fit together also while the system works. The folder gets its name when it is
whole, so half an export is never taken for one.
"""

import base64
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

import apsw

from emulator.base import errors
from emulator.base.version import versions
from emulator.moving import export_files
from emulator.moving.export_files import FilesWanted, new_file
from shared.core.accounts import platform_of
from shared.db.engine import schema
from shared.db.engine.connection import open_connection, savepoint
from shared.db.views.portable import NOT_TAKEN, TABLES, PortableTable

Format = Literal["json", "parquet"]
Row = tuple[Any, ...]
_BATCH = 10_000  # rows of a row group


class ExportedPerson(NamedTuple):
    """A person, by platform and id there."""

    platform: str
    sender_id: str


def write(
    database: Path, agents: Path, target: Path, *, form: Format, person: ExportedPerson | None = None, now_ms: int
) -> dict[str, Any]:
    """Write everything, or everything of one person; the manifest.

    Raises:
        DoesNotExist: there is no database.
        InvalidInput: the folder is there already, and not empty; or another release wrote the database.
        Misconfigured: Parquet is asked for, and pyarrow is not installed.
        EmulatorError: the disk or the database refuses it; nothing is left.
    """
    if not database.exists():
        raise errors.DoesNotExist(f"there is no database at {database}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise errors.InvalidInput(f"{target} has something already: name a new folder; nothing was written")
    target.parent.mkdir(parents=True, exist_ok=True)
    write_table = _writer(form)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as place:
        new = Path(place, "new")
        new.mkdir(mode=0o700)
        try:
            manifest = _fill(new, database, agents, write_table, form, person, now_ms)
        except (OSError, apsw.Error) as error:
            raise errors.EmulatorError(f"nothing was exported: {error}") from None
        if target.exists():
            target.rmdir()
        new.rename(target)
    return manifest


def _fill(
    new: Path,
    database: Path,
    agents: Path,
    write_table: "TableWriter",
    form: Format,
    person: ExportedPerson | None,
    now_ms: int,
) -> dict[str, Any]:
    with closing(open_connection(database, readonly=True)) as conn:
        version, newest = schema.inspect(conn, database), max(schema.migrations())
        if version != newest:
            also = ", or migrate it first with `emulator upgrade`" if version < newest else ""
            raise errors.InvalidInput(
                f"nothing was exported: {database} has schema {version}, and this release exports schema {newest}. "
                f"Export with the release that wrote it{also}"
            )
        tables, wanted = write_tables(conn, new, write_table, form, person)
    files = list(export_files.copy(new, agents, _store(database), wanted))
    left_out = dict(NOT_TAKEN)
    if person is not None:
        left_out |= {table.name: "no row of it is a person's" for table in TABLES if not table.person}
    manifest = {
        "format": form,
        "postroom": versions()["postroom"],
        "schema": version,
        "exportedAt": now_ms,
        "person": f"{person.platform}:{person.sender_id}" if person is not None else None,
        "tables": tables,
        "leftOut": left_out,
        "files": [{"path": each.path, **_facts(new / each.path)} for each in files if not each.problem],
        "filesLeftOut": {each.path: each.problem for each in files if each.problem},
    }
    with new_file(new / "manifest.json") as file:
        file.write(json.dumps(manifest, indent=2, ensure_ascii=False).encode() + b"\n")
    return manifest


def write_tables(
    conn: apsw.Connection, new: Path, write_table: "TableWriter", form: Format, person: ExportedPerson | None
) -> tuple[dict[str, Any], FilesWanted]:
    """Write all tables as of one instant: the facts of each, and which files go with them."""
    tables: dict[str, Any] = {}
    with savepoint(conn):
        for table in TABLES:
            if person is None or table.person:
                tables[table.name] = _write_rows(conn, new, table, write_table, form, person)
        wanted = export_files.wanted(conn, person._asdict() if person is not None else None)
    return tables, wanted


def columns(conn: apsw.Connection, table: PortableTable) -> dict[str, str]:
    """The columns of an exported table, with the type of each: integer, real, text or blob."""
    found = conn.execute("SELECT name, lower(type) FROM pragma_table_info(?)", (table.name,))
    return {name: kind for name, kind in found if name not in table.left_out}


def _write_rows(
    conn: apsw.Connection,
    new: Path,
    table: PortableTable,
    write_table: "TableWriter",
    form: Format,
    person: ExportedPerson | None,
) -> dict[str, Any]:
    of = columns(conn, table)
    names = ", ".join(f'"{name}"' for name in of)
    where = f" WHERE {table.person}" if person is not None else ""
    found = conn.execute(
        f'SELECT {names} FROM "{table.name}"{where} ORDER BY 1, 2',  # noqa: S608 - names and rules of ours
        person._asdict() if person is not None else {},
    )
    path = new / f"{table.name}.{'jsonl' if form == 'json' else 'parquet'}"
    count = write_table(path, of, found)
    return {"file": path.name, "rows": count, "columns": of, **_facts(path)}


TableWriter = Callable[[Path, dict[str, str], Iterator[Row]], int]


def _writer(form: Format) -> TableWriter:
    if form == "json":
        return _write_json
    try:
        import pyarrow as pa  # late: only Parquet needs it, and it takes a quarter of a second
        from pyarrow import parquet as pq
    except ImportError:
        raise errors.Misconfigured(
            "Parquet needs pyarrow, which is not installed here: pip install 'postroom[spark]', or use --format json"
        ) from None
    kinds = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.binary()}

    def write_parquet(path: Path, of: dict[str, str], rows: Iterator[Row]) -> int:
        layout = pa.schema([pa.field(name, kinds[kind]) for name, kind in of.items()])
        count = 0
        with new_file(path) as file, pq.ParquetWriter(file, layout, compression="zstd") as writer:
            for batch in _batches(rows):
                arrays = [
                    pa.array(values, field.type) for values, field in zip(zip(*batch, strict=True), layout, strict=True)
                ]
                writer.write_batch(pa.record_batch(arrays, schema=layout))
                count += len(batch)
        return count

    return write_parquet


def _write_json(path: Path, of: dict[str, str], rows: Iterator[Row]) -> int:
    count = 0
    with new_file(path) as file:
        for row in rows:
            line = json.dumps(dict(zip(of, map(_plain, row), strict=True)), ensure_ascii=False)
            file.write(line.encode() + b"\n")
            count += 1
    return count


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _facts(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _store(database: Path) -> Path:
    """The folder of the copies that agents sent: as in the settings, beside the database."""
    return database.with_name(database.name + ".files")


def person_of(text: str) -> ExportedPerson:
    """The person that ``telegram:4711`` names.

    Raises:
        InvalidInput: it names nobody.
    """
    channel, _, sender_id = text.partition(":")
    if not channel or not sender_id:
        raise errors.InvalidInput(f"{text!r} is no person: write a platform and the id there, such as telegram:4711")
    return ExportedPerson(platform_of(channel), sender_id)
