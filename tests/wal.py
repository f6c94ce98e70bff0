"""What the write-ahead log of a database tells."""

from pathlib import Path

import apsw


def commits(conn: apsw.Connection) -> int:
    """The number of transactions in the write-ahead log. https://sqlite.org/fileformat2.html#the_write_ahead_log"""
    log = Path(f"{conn.filename}-wal").read_bytes()
    page = int.from_bytes(log[8:12])
    heads = (log[at : at + 24] for at in range(32, len(log), 24 + page))
    return sum(head[4:8] != bytes(4) and head[8:16] == log[16:24] for head in heads)
