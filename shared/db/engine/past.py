"""The mark of a copy of the past: a database that was restored from a replica at one position, to be looked at.

From such a database nothing is sent and no turn runs, but the turns of replays (``shared/db/queue/past_replays.py``).
The mark is a row of ``meta``. It is written before the file gets its name, and no statement removes it: so a crash, a
restart, or another environment can't bring the past to life. A mark that can't be read counts as one.
"""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import apsw

from shared.core.time import clock
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, scalar

_KEY = "past"
_UNREADABLE = "an unknown position: the mark can't be read"


@dataclass(frozen=True, slots=True)
class Past:
    """What a copy of the past was made from.

    Attributes:
        replica: the URL of the replica.
        asked: the position that was asked for, as it was written; empty: the newest.
        txid, timestamp: the position that it is: Litestream's number, and when it was made (RFC 3339, UTC).
        prefix: the prefix of its history below the URL; empty: at the URL itself.
        epoch: ``meta.epoch`` of the database at that position; empty: it had none.
        schema: the version of its schema there.
        newest_session: the row of its newest session; a session with a higher row is a replay.
    """

    replica: str
    asked: str
    txid: str
    timestamp: str
    prefix: str = ""
    epoch: str = ""
    schema: int = 0
    newest_session: int = 2**63 - 1

    @property
    def sentence(self) -> str:
        """For people."""
        return f"this is the past, as it was at {self.timestamp} (position {self.txid}); it sends to nobody"

    @property
    def at_ms(self) -> int | None:
        """When the position was made, in ms UTC, at the end of the second that *timestamp* names; None: not known."""
        try:
            at = datetime.fromisoformat(self.timestamp)
        except ValueError:
            return None
        return int(at.timestamp() * 1000) if at.microsecond else int(at.timestamp()) * 1000 + 999

    def is_same_as(self, other: "Past") -> bool:
        """Whether both are one position of one replica, or answer the same question about it."""
        if self.replica != other.replica:
            return False
        same_question = bool(self.asked) and self.asked == other.asked
        return same_question or (self.txid, self.prefix) == (other.txid, other.prefix)


def read(conn: apsw.Connection) -> Past | None:
    """The mark; None: the database lives."""
    text = meta.get(conn, _KEY)
    if text is None:
        return None
    try:
        return Past(**json.loads(text))
    except (TypeError, ValueError):
        return Past("", "", _UNREADABLE, "an unknown instant")


def now_ms(copied: Past | None) -> int:
    """The instant of which rows tell, in ms UTC: that of the copy, or now."""
    at_ms = None if copied is None else copied.at_ms
    return clock.now_ms() if at_ms is None else at_ms


def of_file(path: Path) -> Past | None:
    """The mark of the database at *path*; None: it lives, or there is none.

    Raises:
        apsw.Error: the file can't be read.
    """
    if not path.exists():
        return None
    conn = open_connection(path, readonly=True)
    try:
        has_meta = rows(conn, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'meta'")
        return read(conn) if has_meta else None
    finally:
        conn.close()


_NEWEST_SESSION = "SELECT ifnull(max(id), 0) FROM sessions"


def newest_session(conn: apsw.Connection) -> int:
    """The row of the newest session; 0: there is none."""
    found: int = scalar(conn, _NEWEST_SESSION)
    return found


def mark(conn: apsw.Connection, past: Past) -> None:
    """Make the database a copy of the past, for good.

    Raises:
        apsw.ConstraintError: it is one already.
    """
    conn.execute("INSERT INTO meta (key, value) VALUES (:key, :past)", {"key": _KEY, "past": json.dumps(asdict(past))})
