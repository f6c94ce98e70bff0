"""A long history and its replica in a folder: finished messages of ten days, and the rows of the day after."""

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import apsw

from shared.db.engine.connection import rows, scalar
from shared.db.replica.litestream_program import program
from shared.roster.new_database import prepare_database
from spark_jobs import replicas
from spark_jobs.replicas import Pin
from tests.benchmarks.harness.measure import Scale

DAY_MS = 86_400_000
BEGIN = 1_760_000_400_000 // DAY_MS * DAY_MS
DAYS = 10
TOMORROW_SHARE = 100  # one row in so many comes on the day after
_BUILD = ("journal_mode = WAL", "synchronous = OFF", "wal_autocheckpoint = 0", "cache_size = -200000")
_TEXT = "Could you look at the report that came in this morning and tell me what changed since last week? " * 2
_MESSAGES = """
    WITH RECURSIVE numbers (n) AS (SELECT :first UNION ALL SELECT n + 1 FROM numbers WHERE n < :last)
    INSERT INTO messages (id, message_id, id_prefix, channel, sender, sender_id, message, agent, session_id, status,
                          failure, created_at, updated_at)
    SELECT n, 'telegram_' || printf('%016x', n * 2654435761), 'telegram', iif(n % 3, 'telegram', 'discord'), 'Ana',
           10000 + n * 2654435761 % 5000, :text, 'agent-' || (n % 20), 1, iif(n % 100, 'completed', 'dead'),
           iif(n % 100, NULL, 'error'), :begin + (n - :first) * :span / (:last - :first + 1), :begin
      FROM numbers
"""
_EVENTS = """
    INSERT INTO events (type, message_id, agent, channel, session_id, created_at)
    SELECT 'message_received', message_id, agent, channel, session_id, created_at
      FROM messages
     WHERE id >= :first AND (id % 100 = 0 OR :all)
"""


@dataclass(frozen=True, slots=True)
class History:
    """A replica at two positions.

    Args:
        rows: messages at the first position, which is *today*.
        tomorrow: the position that has one message in a hundred more, each with its event.
    """

    db: Path
    rows: int
    today: Pin
    tomorrow: Pin

    @property
    def url(self) -> str:
        return self.today.url


def history(scale: Scale, count: int) -> History:
    """The history of *count* messages; made once and kept for the next run."""
    mark = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    folder = scale.cache / f"history-{count}-{mark}"
    if not folder.exists():
        for old in scale.cache.glob(f"history-{count}-*"):
            shutil.rmtree(old)
        fresh = scale.folder / f"history-{count}"
        fresh.mkdir()
        positions = _build(fresh, count)
        (fresh / "positions.json").write_text(json.dumps(positions))
        fresh.rename(folder)
    url = f"file://{folder / 'replica'}"
    today, tomorrow = (Pin.at(url, each) for each in json.loads((folder / "positions.json").read_text()))
    return History(folder / "postroom.db", count, today, tomorrow)


def _build(folder: Path, count: int) -> list[str]:
    """The two positions."""
    path, url = folder / "postroom.db", f"file://{folder / 'replica'}"
    prepare_database(path)
    more = max(1, count // TOMORROW_SHARE)
    conn = apsw.Connection(str(path))
    try:
        for pragma in _BUILD:
            rows(conn, f"PRAGMA {pragma}")
        agent = scalar(conn, "SELECT id FROM agents LIMIT 1")
        conn.execute(
            "INSERT INTO sessions (id, session_id, agent, created_at, last_active) VALUES (1, 's', ?, 1, 1)"
            " ON CONFLICT DO NOTHING",
            (agent,),
        )
        _add(conn, 1, count, BEGIN, DAYS * DAY_MS)
        rows(conn, "PRAGMA wal_checkpoint(TRUNCATE)")
        today = _replicated(path, url)
        _add(conn, count + 1, count + more, BEGIN + DAYS * DAY_MS, DAY_MS, every_event=True)
        tomorrow = _replicated(path, url)
    finally:
        conn.close()
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return [today.position, tomorrow.position]


def _add(conn: apsw.Connection, first: int, last: int, begin: int, span: int, *, every_event: bool = False) -> None:
    facts = {"first": first, "last": last, "begin": begin, "span": span, "text": _TEXT}
    with conn:
        conn.execute(_MESSAGES, facts)
        conn.execute(_EVENTS, {"first": first, "all": every_event})


def _replicated(path: Path, url: str) -> Pin:
    subprocess.run([program(), "replicate", "-once", str(path), url], check=True, capture_output=True)
    return replicas.resolve(url)
