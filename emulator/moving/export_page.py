"""The last part of ``docs/moving.md``: each file of an export, with its columns, from the code and the migrations."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from emulator.moving.export import columns
from shared.db.engine.connection import open_connection
from shared.db.views.portable import NOT_TAKEN, TABLES
from shared.roster.new_database import prepare_database

HEADING = "## The files of an export\n"
_SHORT = {"integer": "", "text": " text", "real": " number", "blob": " bytes"}


def part() -> str:
    """The part, from its heading to the end of the page."""
    return "\n".join([HEADING, *_lines(), ""])


def _lines() -> Iterator[str]:
    yield "A column without a word is a whole number. *Person*: an export of one person has their rows;"
    yield "*forgotten*: `emulator users forget` deletes these rows, or takes the person out of them."
    yield ""
    yield "| file | rows | whose | columns |"
    yield "|---|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "p.db")
        prepare_database(path)
        conn = open_connection(path, readonly=True)
        for table in TABLES:
            whose = "person, forgotten" if table.is_forgotten else "person" if table.person else ""
            of = ", ".join(f"`{name}`{_SHORT[kind]}" for name, kind in columns(conn, table).items())
            yield f"| `{table.name}` | {table.says} | {whose} | {of} |"
        conn.close()
    left_out = [f"`{table.name}.{name}`" for table in TABLES for name in table.left_out]
    yield ""
    yield f"Columns that no export has, because they prove something or mean nothing elsewhere: {', '.join(left_out)}."
    yield ""
    yield "| table that no export has | why |"
    yield "|---|---|"
    for name, why in NOT_TAKEN.items():
        yield f"| `{name}` | {why} |"


if __name__ == "__main__":
    sys.stdout.write(part())
