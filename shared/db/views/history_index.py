"""The index of the agents' histories, for search by words: a file of its own beside the database.

Only ``sweep`` writes it, from the rows of ``agent_messages``, in slices and without a lock of the database. It is not
replicated, and may be deleted at any time: the next sweep builds it again. It has the words of each line with its
session, its day and its month (``s12 d20270115 m202701``), but no text. A search shows texts from the rows only. So a
deleted line is not shown; a later sweep removes its words from the index.
"""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import apsw

from shared.core import logs
from shared.core.time import clock
from shared.db.engine import meta, owner_only
from shared.db.engine.connection import rows, savepoint, scalar

log = logs.get()

SLICE = 500  # lines of a transaction
AUDITED = 5000  # lines of a sweep that are looked for in the rows
_LONGEST_S = 5.0  # of one sweep; the next one goes on
_PAUSE_S = 0.01  # between slices: other work on this machine comes first
_BUSY_MS = 200  # a search waits for a slice, which takes a few milliseconds
_FORM = "1"  # another one: the index is built anew

_SCHEMA = """
    CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE lines (id INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL) STRICT;
    CREATE VIRTUAL TABLE words USING fts5 (
        text, marks, content='', contentless_delete=1, tokenize="unicode61 remove_diacritics 2"
    );
    INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
"""

NEXT_LINES = """
    SELECT id, content, created_at,
           ifnull(session_id, (SELECT m.session_id FROM messages m WHERE m.message_id = a.message_id))
      FROM agent_messages a
     WHERE id > :after
     ORDER BY id
     LIMIT :limit
"""


def path_of(database: Path) -> Path:
    """The file of the index."""
    return database.with_name(f"{database.name}.history")


def day(at_ms: int) -> str:
    """The mark of the day (UTC) of the instant."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("d%Y%m%d")


def month(at_ms: int) -> str:
    """The mark of its month."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("m%Y%m")


def _times(since_ms: int, until_ms: int) -> list[str]:
    """The marks of all days of a short time, or of all months of a long one."""
    days = range(since_ms // _DAY_MS, (until_ms - 1) // _DAY_MS + 1)
    marks = (day(each * _DAY_MS) if len(days) <= _MOST_DAYS else month(each * _DAY_MS) for each in days)
    return list(dict.fromkeys(marks))


def tokens(text: str) -> list[str]:
    """The words of *text*, nearly as the index has them: without accents, in lower case. Pure."""
    plain = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    return "".join(each if each.isalnum() else " " for each in plain.casefold()).split()


class HistoryIndexer:
    """Brings the index of *database* up to date. For one thread at a time."""

    def __init__(self, database: Path, *, pause: Callable[[float], object] = clock.pause) -> None:
        self._path = path_of(database)
        self._pause = pause
        self._audited_to = 0

    def work(self, reader: apsw.Connection, *, longest_s: float = _LONGEST_S) -> int:
        """Index the new lines, and remove deleted ones; the number of indexed lines.

        Args:
            reader: of the database.
        """
        try:
            return self._work(reader, longest_s)
        except (apsw.CorruptError, apsw.NotADBError):
            log.warning("history_index.built_anew", reason="SQLite can't read it")
            self._delete()
            return self._work(reader, longest_s)

    def _work(self, reader: apsw.Connection, longest_s: float) -> int:
        conn = self._opened(reader)
        try:
            count, deadline = 0, clock.monotonic_s() + longest_s
            for found in self._slices(conn, reader):
                count += found
                if found < SLICE or clock.monotonic_s() > deadline:
                    break
                self._pause(_PAUSE_S)
            self._audit(conn, reader)
            return count
        finally:
            conn.close()

    def _slices(self, conn: apsw.Connection, reader: apsw.Connection) -> Iterator[int]:
        while True:
            told = _about(conn)
            after = int(told.get("last", 0))
            found = rows(reader, NEXT_LINES, {"after": after, "limit": SLICE})
            with savepoint(conn):
                for id_, content, at_ms, session in found:
                    conn.execute("INSERT INTO lines (id, at_ms) VALUES (?, ?)", (id_, at_ms))
                    marks = f"s{session or 0} {day(at_ms)} {month(at_ms)}"
                    conn.execute("INSERT INTO words (rowid, text, marks) VALUES (?, ?, ?)", (id_, content, marks))
                if found:
                    instants = [at_ms for _, _, at_ms, _ in found]
                    _put(conn, "last", str(found[-1][0]))
                    _put(conn, "earliest", str(min([*instants, int(told.get("earliest", _FAR))])))
                    _put(conn, "latest", str(max([*instants, int(told.get("latest", 0))])))
            yield len(found)

    def _audit(self, conn: apsw.Connection, reader: apsw.Connection) -> None:
        """Remove lines whose rows are deleted. Each sweep looks for some of the lines, in turn."""
        known = [
            id_
            for (id_,) in rows(
                conn, "SELECT id FROM lines WHERE id > ? ORDER BY id LIMIT ?", (self._audited_to, AUDITED)
            )
        ]
        self._audited_to = known[-1] if len(known) == AUDITED else 0
        if not known:
            return
        there = {
            id_
            for (id_,) in rows(reader, "SELECT id FROM agent_messages WHERE id BETWEEN ? AND ?", (known[0], known[-1]))
        }
        gone = [(each,) for each in known if each not in there]
        if gone:
            with savepoint(conn):
                conn.executemany("DELETE FROM words WHERE rowid = ?", gone)
                conn.executemany("DELETE FROM lines WHERE id = ?", gone)

    def _opened(self, reader: apsw.Connection) -> apsw.Connection:
        """The index of these rows; emptied if it was built from others: a restore gives old ids to other lines."""
        conn = self._connected()
        told, epoch = _about(conn), meta.get(reader, "epoch") or ""
        newest = scalar(reader, "SELECT ifnull(max(id), 0) FROM agent_messages") or 0
        if (told.get("form"), told.get("epoch")) == (_FORM, epoch) and int(told.get("last", 0)) <= newest:
            return conn
        conn.close()
        self._delete()
        conn = self._connected()
        with savepoint(conn):
            conn.execute(_SCHEMA)
            _put(conn, "form", _FORM)
            _put(conn, "epoch", epoch)
        return conn

    def _connected(self) -> apsw.Connection:
        owner_only.make_file(self._path)
        conn = apsw.Connection(str(self._path))
        conn.set_busy_timeout(1000)
        rows(conn, "PRAGMA secure_delete = ON")  # what is taken out is overwritten
        return conn

    def _delete(self) -> None:
        for suffix in ("", "-journal"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)


def opened(database: Path) -> apsw.Connection | None:
    """The index, to read; None: there is none yet."""
    if not path_of(database).exists():
        return None
    try:
        conn = apsw.Connection(str(path_of(database)), flags=apsw.SQLITE_OPEN_READONLY)
        conn.set_busy_timeout(_BUSY_MS)
        if _about(conn).get("form") == _FORM:
            return conn
        conn.close()
    except apsw.Error:  # the next sweep mends it; until then the newest lines are found
        log.warning("history_index.not_read", file=path_of(database).name)
    return None


def last(conn: apsw.Connection) -> int:
    """The newest line in the index."""
    return int(_about(conn).get("last", 0))


def _about(conn: apsw.Connection) -> dict[str, str]:
    if not rows(conn, "SELECT 1 FROM sqlite_schema WHERE name = 'about'"):
        return {}
    return dict(rows(conn, "SELECT name, value FROM about"))


def _put(conn: apsw.Connection, name: str, value: str) -> None:
    conn.execute("INSERT INTO about VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", (name, value))


MATCHING = """
    SELECT rowid
      FROM words
     WHERE words MATCH :question AND rowid < :before
           AND EXISTS (SELECT 1 FROM lines l WHERE l.id = words.rowid AND l.at_ms >= :since AND l.at_ms < :until)
     ORDER BY rowid DESC
     LIMIT :limit
"""


def matching(
    conn: apsw.Connection,
    words: Sequence[str],
    sessions: Sequence[int],
    *,
    since_ms: int,
    until_ms: int,
    before: int,
    limit: int,
) -> list[int]:
    """The newest lines of these sessions with all the words, newest first; ``invoic*`` is the beginning of a word."""
    marks = [" OR ".join(f'"s{each}"' for each in sessions)]
    told = _about(conn)
    earliest, latest = int(told.get("earliest", 0)), int(told.get("latest", 0))
    if since_ms > earliest or until_ms <= latest:
        times = _times(max(since_ms, earliest), min(until_ms, latest + 1))
        marks.append(" OR ".join(f'"{each}"' for each in times) or '"never"')
    parts = [*(f"marks : ({each})" for each in marks), *(f"text : {_quoted(each)}" for each in words)]
    key = {
        "question": " AND ".join(parts),
        "since": since_ms,
        "until": until_ms,
        "before": before,
        "limit": limit,
    }
    return [id_ for (id_,) in rows(conn, MATCHING, key)]


_DAY_MS = 24 * 60 * 60 * 1000
_MOST_DAYS = 60  # that a search names one by one
_FAR = 2**62


def _quoted(word: str) -> str:
    """The word quoted for FTS5, so that no part of it is an operator."""
    star = "*" if word.endswith("*") else ""
    return '"' + word.rstrip("*").replace('"', '""') + '"' + star
