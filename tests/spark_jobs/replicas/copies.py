"""What a copy of a replica holds."""

from pathlib import Path

import apsw

ROOT = Path(__file__).parents[3]


def count(path: Path) -> int:
    conn = apsw.Connection(f"file:{path}?mode=ro&immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        return conn.execute("SELECT count(*) FROM messages").fetchone()[0]
    finally:
        conn.close()
