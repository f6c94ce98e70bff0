"""The reference: the smallest correct hand-written apsw program, with the same file settings and durable work."""

from pathlib import Path

import apsw

_SCHEMA = """
    CREATE TABLE messages (id INTEGER PRIMARY KEY, channel TEXT NOT NULL, event_key TEXT, sender TEXT NOT NULL,
                           message TEXT NOT NULL, agent TEXT NOT NULL, session_id INTEGER NOT NULL,
                           status TEXT NOT NULL, claimed_by TEXT, lease INTEGER, created_at INTEGER NOT NULL) STRICT;
    CREATE INDEX open ON messages (session_id, id) WHERE status = 'pending';
    CREATE TABLE responses (id INTEGER PRIMARY KEY, message_id INTEGER NOT NULL, channel TEXT NOT NULL,
                            message TEXT NOT NULL, status TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;
    CREATE INDEX unsent ON responses (channel, id) WHERE status = 'pending';
    CREATE TABLE history (id INTEGER PRIMARY KEY, content TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;
    CREATE TABLE events (id INTEGER PRIMARY KEY, type TEXT NOT NULL, message_id INTEGER,
                         created_at INTEGER NOT NULL) STRICT;
"""


class Raw:
    """One connection, cached statements, no functions in between."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self.conn = apsw.Connection(str(path))
        for pragma in ("journal_mode = WAL", "wal_autocheckpoint = 10000", f"synchronous = {synchronous}"):
            self.conn.execute(f"PRAGMA {pragma}").fetchall()
        self.conn.execute(_SCHEMA)
        self._cursor = self.conn.cursor()

    def insert(self, text: str, now_ms: int) -> None:
        """One message, in the caller's transaction or its own."""
        self._cursor.execute(
            "INSERT INTO messages (channel, sender, message, agent, session_id, status, created_at)"
            " VALUES ('telegram', 'Ana', ?, 'assistant', 1, 'pending', ?)",
            (text, now_ms),
        )

    def claim_and_settle(self, limit: int, now_ms: int) -> int:
        """Claim the oldest *limit*; then complete them with a response, history and an event each. How many."""
        found = self._cursor.execute(
            "UPDATE messages SET status = 'processing', claimed_by = 'raw', lease = ?1"
            " WHERE id IN (SELECT id FROM messages WHERE session_id = 1 AND status = 'pending' ORDER BY id LIMIT ?2)"
            " RETURNING id, message",
            (now_ms + 30_000, limit),
        ).fetchall()
        with self.conn:
            for id_, text in found:
                self._cursor.execute(
                    "UPDATE messages SET status = 'completed', claimed_by = NULL, lease = NULL"
                    " WHERE id = ? AND status = 'processing' AND claimed_by = 'raw'",
                    (id_,),
                )
                self._cursor.execute(
                    "INSERT INTO responses (message_id, channel, message, status, created_at)"
                    " VALUES (?, 'telegram', ?, 'pending', ?)",
                    (id_, text, now_ms),
                )
                self._cursor.execute("INSERT INTO history (content, created_at) VALUES (?, ?)", (text, now_ms))
                self._cursor.execute("INSERT INTO history (content, created_at) VALUES (?, ?)", (text, now_ms))
                self._cursor.execute(
                    "INSERT INTO events (type, message_id, created_at) VALUES ('done', ?, ?)", (id_, now_ms)
                )
        return len(found)
