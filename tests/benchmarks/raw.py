"""The reference: the smallest correct hand-written apsw program, on the same file settings, that keeps the same facts.

It has one connection, cached statements, and no functions in between. A message has a random unique id, as every
message promises, and the index that holds it unique. Two more indexes find the work: one on the open messages, one on
the unsent responses. It leaves out what a store pays for: foreign keys, checks, look-ups by chat and by agent, and
sessions that exclude each other.
"""

import itertools
from pathlib import Path
from typing import Any

import apsw

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS messages (
        id INTEGER PRIMARY KEY, message_id TEXT NOT NULL UNIQUE DEFAULT ('telegram_' || lower(hex(randomblob(8)))),
        id_prefix TEXT NOT NULL, kind TEXT NOT NULL, channel TEXT NOT NULL, chat_id INTEGER, platform_id TEXT,
        platform_message_id TEXT, event_key TEXT, sender TEXT NOT NULL, sender_id TEXT,
        message TEXT NOT NULL, content TEXT NOT NULL, files TEXT NOT NULL, agent TEXT NOT NULL,
        session_id INTEGER NOT NULL, status TEXT NOT NULL, retry_count INTEGER NOT NULL, claimed_by TEXT,
        lease INTEGER, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;
    CREATE INDEX IF NOT EXISTS open ON messages (session_id, id) WHERE status = 'pending';
    CREATE TABLE IF NOT EXISTS responses (
        id INTEGER PRIMARY KEY, message_id TEXT NOT NULL, in_reply_to INTEGER, channel TEXT NOT NULL, chat_id INTEGER,
        platform_id TEXT, session_id INTEGER, sender TEXT NOT NULL, sender_id TEXT, message TEXT NOT NULL,
        original_message TEXT NOT NULL, agent TEXT, content TEXT NOT NULL, status TEXT NOT NULL,
        created_at INTEGER NOT NULL) STRICT;
    CREATE INDEX IF NOT EXISTS unsent ON responses (chat_id, id) WHERE status = 'pending';
    CREATE TABLE IF NOT EXISTS history (
        id INTEGER PRIMARY KEY, agent TEXT NOT NULL, role TEXT NOT NULL, channel TEXT NOT NULL, sender TEXT NOT NULL,
        message_id TEXT NOT NULL, content TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS events (
        id INTEGER PRIMARY KEY, type TEXT NOT NULL, message_id TEXT, response_id INTEGER, agent TEXT, channel TEXT,
        session_id INTEGER, created_at INTEGER NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS sessions (id INTEGER PRIMARY KEY, continuation TEXT, last_active INTEGER) STRICT;
"""
_INSERT = (
    "INSERT INTO messages (id_prefix, kind, channel, chat_id, platform_id, platform_message_id, event_key, sender,"
    " sender_id, message, content, files, agent, session_id, status, retry_count, created_at, updated_at)"
    " VALUES (?1, 'chat', 'telegram', ?2, ?3, ?4, ?5, 'Ana', ?3, ?6, '{}', '[]', 'assistant', ?7, 'pending', 0, ?8, ?8)"
)
_EVENT = (
    "INSERT INTO events (type, message_id, response_id, agent, channel, session_id, created_at)"
    " VALUES (?, ?, ?, 'assistant', 'telegram', ?, ?)"
)
_CLAIM = (
    "UPDATE messages SET status = 'processing', claimed_by = ?1, lease = ?2, updated_at = ?3"
    " WHERE id IN (SELECT id FROM messages WHERE session_id = ?4 AND status = 'pending' ORDER BY id LIMIT ?5)"
    " RETURNING id, chat_id, platform_id, message, message_id"
)
_CLAIM_ANY = _CLAIM.replace("session_id = ?4 AND ", "?4 IS NOT NULL AND ")
_COMPLETE = (
    "UPDATE messages SET status = 'completed', claimed_by = NULL, lease = NULL, updated_at = ?"
    " WHERE id = ? AND status = 'processing' AND claimed_by = ?"
)
_RESPONSE = (
    "INSERT INTO responses (message_id, in_reply_to, channel, chat_id, platform_id, session_id, sender, sender_id,"
    " message, original_message, agent, content, status, created_at)"
    " VALUES (?1, ?2, 'telegram', ?3, ?4, ?5, 'Ana', ?4, ?6, ?6, 'assistant', '{}', 'pending', ?7)"
)
_HISTORY = (
    "INSERT INTO history (agent, role, channel, sender, message_id, content, created_at)"
    " VALUES ('assistant', ?, 'telegram', ?, ?, ?, ?)"
)


# Of each message: id, chat_id, platform_id, message, message_id.
Claimed = list[tuple[int, int, str, str, str]]


class Raw:
    """The whole program. *busy_ms*: how long SQLite itself waits for the write lock, where several processes write."""

    def __init__(self, path: Path, synchronous: str, *, busy_ms: int = 0) -> None:
        self.conn = apsw.Connection(str(path))
        self.conn.set_busy_timeout(busy_ms)
        self.conn.transaction_mode = "IMMEDIATE"
        for pragma in ("journal_mode = WAL", "wal_autocheckpoint = 10000", f"synchronous = {synchronous}"):
            self.conn.execute(f"PRAGMA {pragma}").fetchall()
        self.conn.execute(_SCHEMA)
        self._cursor = self.conn.cursor()
        self._ids = itertools.count()

    def insert(self, text: str, now_ms: int, *, chat: int = 1, prefix: str = "telegram", key: bool = False) -> None:
        """One message, in the caller's transaction or its own."""
        number = next(self._ids)
        event_key = f"7100200300:{number:012d}" if key else None
        values = (prefix, chat, str(chat), str(number), event_key, text, chat, now_ms)
        self._cursor.execute(_INSERT, values)

    def insert_one(self, text: str, now_ms: int) -> int:
        """One message: the reference of the ratios."""
        self.insert(text, now_ms)
        return 1

    def insert_with_event(self, text: str, now_ms: int) -> int:
        """The same, and in the same transaction the event that tells listeners."""
        number = next(self._ids)
        with self.conn:
            values = ("telegram", 1, "1", str(number), None, text, 1, now_ms)
            ((message_id,),) = self._cursor.execute(f"{_INSERT} RETURNING message_id", values).fetchall()
            self._cursor.execute(_EVENT, ("message_received", message_id, None, 1, now_ms))
        return 1

    def insert_many(self, text: str, now_ms: int, count: int) -> int:
        """*count* messages in one transaction."""
        with self.conn:
            for _ in range(count):
                self.insert(text, now_ms)
        return count

    def claim(self, limit: int, now_ms: int, *, token: str = "raw", session: int | None = 1) -> Claimed:
        """Claim the oldest *limit* messages of the session, or of all sessions."""
        sql = _CLAIM_ANY if session is None else _CLAIM
        values = (token, now_ms + 30_000, now_ms, session or 0, limit)
        found: Any = self._cursor.execute(sql, values).fetchall()
        return list(found)

    def begin(self, limit: int, now_ms: int, *, token: str = "raw", session: int | None = 1) -> Claimed:
        """The same, with an event for the arrival of each message and one for the start of the turn."""
        with self.conn:
            found = self.claim(limit, now_ms, token=token, session=session)
            for _, chat, _, _, message_id in found:
                self._cursor.execute(_EVENT, ("message_received", message_id, None, chat, now_ms))
            if found:
                _, chat, _, _, message_id = found[0]
                self._cursor.execute(_EVENT, ("chain_step_start", message_id, None, chat, now_ms))
        return found

    def settle(self, found: Claimed, now_ms: int, *, token: str = "raw") -> int:
        """Complete them, and write the same responses, history and events as the store."""
        run = self._cursor.execute
        with self.conn:
            for id_, chat, platform_id, text, message_id in found:
                run(_COMPLETE, (now_ms, id_, token))
                if self.conn.changes() != 1:
                    raise RuntimeError(f"message {id_} lost its claim")
                run(_HISTORY, ("user", "Ana", message_id, text, now_ms))
                run(_HISTORY, ("assistant", "assistant", message_id, text, now_ms))
                run(_RESPONSE, (message_id, id_, chat, platform_id, chat, text, now_ms))
                run(_EVENT, ("response_ready", message_id, self.conn.last_insert_rowid(), chat, now_ms))
            _, chat, _, _, message_id = found[0]
            run("UPDATE sessions SET last_active = ? WHERE id = ?", (now_ms, chat))
            run(_EVENT, ("chain_step_done", message_id, None, chat, now_ms))
        return len(found)

    def turn(self, limit: int, now_ms: int) -> int:
        """Claim, then settle; how many messages."""
        found = self.begin(limit, now_ms)
        return self.settle(found, now_ms) if found else 0

    def complete_only(self, limit: int, now_ms: int) -> int:
        """Claim, then complete and nothing else, one UPDATE each; how many messages."""
        found = self.claim(limit, now_ms)
        with self.conn:
            for row in found:
                self._cursor.execute(_COMPLETE, (now_ms, row[0], "raw"))
        return len(found)
