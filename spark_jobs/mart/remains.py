"""Looks through every column of every file of a mart for a person who was taken out."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import fs
from pyarrow import parquet as pq

_SHORTEST_NAME = 3
_EDGE = "[^0-9A-Za-z_]"


def remains_of(files: Any, folder: str, ids: Iterable[str], names: Iterable[str]) -> dict[str, int]:
    """How many rows of each ``table.column`` still have one of the ids or names as a word, in all generations.

    Args:
        files: pyarrow's file system.
        folder: of all generations in it.
    """
    words = {*ids, *(name for name in names if len(name) >= _SHORTEST_NAME)} - {""}
    words |= {json.dumps(word)[1:-1] for word in words}
    if not words:
        return {}
    pattern = f"(^|{_EDGE})({'|'.join(map(re.escape, sorted(words)))})($|{_EDGE})"
    found: Counter[str] = Counter()
    for file in files.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True)):
        if file.type != fs.FileType.File or not file.path.endswith(".parquet"):
            continue
        table = file.path.removeprefix(folder).split("/day=")[0].strip("/").split("/")
        name = table[-1] if "/day=" in file.path else table[-2]
        with pq.ParquetFile(files.open_input_file(file.path)) as opened:
            for batch in opened.iter_batches():
                for column, values in zip(batch.schema, batch.columns, strict=True):
                    if pa.types.is_string(column.type):
                        found[f"{name}.{column.name}"] += pc.sum(pc.match_substring_regex(values, pattern)).as_py() or 0
    return {column: rows for column, rows in sorted(found.items()) if rows}
