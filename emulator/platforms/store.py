"""The database of the fake platforms: ``platforms.db`` in the state folder.

One process opens it. Everything that survives a restart is a row: people, messages, updates that wait for delivery,
interaction tokens, and the last requests (:mod:`.record.request_log`).
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import apsw
import msgspec

from emulator.base.errors import NotADatabase
from emulator.platforms.files import FileStore
from emulator.platforms.record.request_log import RequestLog
from shared.db.engine import owner_only

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS people (
    platform TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, username TEXT NOT NULL,
    PRIMARY KEY (platform, id)
) STRICT, WITHOUT ROWID;

-- kind: private, group, supergroup (Telegram); dm, channel, thread (Discord). facts: JSON, e.g. blocked, started,
-- topics (Telegram), parent, archived, locked (of Discord's threads)
CREATE TABLE IF NOT EXISTS chats (
    platform TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL,
    members TEXT NOT NULL DEFAULT '[]', facts TEXT NOT NULL DEFAULT '{}', last_message INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (platform, id)
) STRICT, WITHOUT ROWID;

-- detail: JSON, properties of one platform alone (entities, files, reactions, pings, state ...)
CREATE TABLE IF NOT EXISTS messages (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    platform TEXT NOT NULL, chat TEXT NOT NULL, id TEXT NOT NULL,
    author TEXT NOT NULL, is_bot INTEGER NOT NULL, text TEXT NOT NULL, detail TEXT NOT NULL,
    nonce TEXT, created_ms INTEGER NOT NULL, edited_ms INTEGER, deleted_ms INTEGER,
    UNIQUE (platform, chat, id)
) STRICT;
CREATE INDEX IF NOT EXISTS messages_chat ON messages (platform, chat, seq);
CREATE INDEX IF NOT EXISTS messages_nonce ON messages (chat, nonce) WHERE nonce IS NOT NULL;

-- Telegram's updates. queue: updates of one queue are delivered strictly in order.
CREATE TABLE IF NOT EXISTS updates (
    update_id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL, queue TEXT NOT NULL, chat TEXT, message TEXT, body TEXT NOT NULL,
    created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'dropped')),
    attempts INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0, delay_s INTEGER NOT NULL DEFAULT 1,
    due_ms INTEGER NOT NULL DEFAULT 0, status INTEGER, error TEXT, took_ms REAL, settled_ms INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS updates_pending ON updates (queue, update_id) WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS updates_message ON updates (chat, message);

-- Discord's interactions. custom_id: the component that a person used; NULL for a command. kind, particular (JSON):
-- see discord/interaction_rows.py. modal: the form that was the answer, as JSON.
-- state: waiting for the first answer, deferred, answered, dead.
CREATE TABLE IF NOT EXISTS interactions (
    id TEXT PRIMARY KEY, token TEXT NOT NULL UNIQUE, channel TEXT NOT NULL, person TEXT NOT NULL, message TEXT,
    created_ms INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'deferred', 'answered', 'dead')),
    original TEXT, status INTEGER, error TEXT, took_ms REAL,
    custom_id TEXT, kind TEXT, particular TEXT, modal TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS interactions_message ON interactions (channel, message);
"""


class FakePerson(msgspec.Struct, frozen=True):
    """A person who can write to the bot."""

    id: str
    name: str
    username: str


class FakeChat(msgspec.Struct, frozen=True):
    """One conversation. *members* holds people's ids, *facts* the properties of its platform alone."""

    platform: str
    id: str
    kind: str
    title: str
    members: tuple[str, ...]
    facts: Mapping[str, Any]


class FakeMessage(msgspec.Struct, frozen=True):
    """One message of a transcript; *detail* holds the properties of its platform alone."""

    seq: int
    platform: str
    chat: str
    id: str
    author: str
    is_bot: bool
    text: str
    detail: dict[str, Any]
    created_ms: int
    edited_ms: int | None
    nonce: str | None


_MESSAGE = "seq, platform, chat, id, author, is_bot, text, detail, created_ms, edited_ms, nonce"


class PlatformStore:
    """The one connection. Every method is short: it runs on the event loop."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it.

        Raises:
            NotADatabase: it is damaged, or another program's.
        """
        owner_only.make_folder(path.parent)
        owner_only.make_file(path)
        try:
            self._open(path)
        except apsw.Error as error:
            raise NotADatabase(
                f"{path}, the chats on the fake platforms, can't be read ({error}): move it away, and start again with "
                f"empty chats"
            ) from None

    def _open(self, path: Path) -> None:
        self.conn = apsw.Connection(str(path))
        self.conn.set_busy_timeout(2000)
        self.conn.execute("PRAGMA journal_mode = WAL").fetchall()
        self.conn.execute("PRAGMA synchronous = NORMAL").fetchall()
        self.conn.execute(SCHEMA)
        self.files = FileStore(self.conn)
        self.requests = RequestLog(self.conn)
        columns = [row[1] for row in self.conn.execute("PRAGMA table_info(interactions)")]
        for column in ("custom_id", "kind", "particular", "modal"):  # a file from an earlier release
            if column not in columns:
                self.conn.execute(f"ALTER TABLE interactions ADD COLUMN {column} TEXT")

    def close(self) -> None:
        self.conn.close()

    # values of the whole installation

    def get(self, key: str) -> str | None:
        row = self.conn.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else None

    def put(self, key: str, value: str) -> None:
        self.conn.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))

    def get_or_put(self, key: str, value: str) -> str:
        """The first value that was stored under *key*."""
        self.conn.execute("INSERT OR IGNORE INTO meta (key, value) VALUES (?, ?)", (key, value))
        return self.get(key) or value

    # people and chats

    def add_person(self, platform: str, person: FakePerson) -> None:
        self.conn.execute(
            "INSERT OR IGNORE INTO people (platform, id, name, username) VALUES (?, ?, ?, ?)",
            (platform, person.id, person.name, person.username),
        )

    def person(self, platform: str, person_id: str) -> FakePerson | None:
        row = self.conn.execute(
            "SELECT id, name, username FROM people WHERE platform = ? AND id = ?", (platform, person_id)
        ).fetchone()
        return FakePerson(*row) if row else None

    def people(self, platform: str) -> list[FakePerson]:
        rows = self.conn.execute("SELECT id, name, username FROM people WHERE platform = ? ORDER BY id", (platform,))
        return [FakePerson(*row) for row in rows]

    def add_chat(self, chat: FakeChat) -> None:
        self.conn.execute(
            "INSERT OR IGNORE INTO chats (platform, id, kind, title, members, facts) VALUES (?, ?, ?, ?, ?, ?)",
            (chat.platform, chat.id, chat.kind, chat.title, _dump(chat.members), _dump(chat.facts)),
        )

    def chat(self, platform: str, chat_id: str) -> FakeChat | None:
        row = self.conn.execute(
            "SELECT platform, id, kind, title, members, facts FROM chats WHERE platform = ? AND id = ?",
            (platform, chat_id),
        ).fetchone()
        return _chat(row) if row else None

    def chats(self, platform: str) -> list[FakeChat]:
        rows = self.conn.execute(
            "SELECT platform, id, kind, title, members, facts FROM chats WHERE platform = ? ORDER BY kind DESC, id",
            (platform,),
        )
        return [_chat(row) for row in rows]

    def set_facts(self, chat: FakeChat, **facts: Any) -> None:
        """Add *facts* to those of *chat*."""
        self.conn.execute(
            "UPDATE chats SET facts = json_patch(facts, ?) WHERE platform = ? AND id = ?",
            (_dump(facts), chat.platform, chat.id),
        )

    def rename(self, chat: FakeChat, title: str) -> None:
        self.conn.execute("UPDATE chats SET title = ? WHERE platform = ? AND id = ?", (title, chat.platform, chat.id))

    def join(self, chat: FakeChat, person_id: str) -> None:
        if person_id not in chat.members:
            self._set_members(chat, (*chat.members, person_id))

    def leave(self, chat: FakeChat, person_id: str) -> None:
        self._set_members(chat, tuple(each for each in chat.members if each != person_id))

    def _set_members(self, chat: FakeChat, members: tuple[str, ...]) -> None:
        self.conn.execute(
            "UPDATE chats SET members = ? WHERE platform = ? AND id = ?", (_dump(members), chat.platform, chat.id)
        )

    def next_message_id(self, chat: FakeChat) -> int:
        """The next message id of the chat: Telegram counts messages per chat."""
        rows: list[tuple[Any, ...]] = self.conn.execute(
            "UPDATE chats SET last_message = last_message + 1 WHERE platform = ? AND id = ? RETURNING last_message",
            (chat.platform, chat.id),
        ).fetchall()
        return int(rows[0][0])

    # messages

    def add_message(
        self,
        chat: FakeChat,
        message_id: str,
        *,
        author: str,
        is_bot: bool,
        text: str,
        detail: Mapping[str, Any],
        now_ms: int,
        nonce: str | None = None,
    ) -> FakeMessage:
        rows = self.conn.execute(
            "INSERT INTO messages (platform, chat, id, author, is_bot, text, detail, nonce, created_ms)"  # noqa: S608
            f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING {_MESSAGE}",
            (chat.platform, chat.id, message_id, author, int(is_bot), text, _dump(detail), nonce, now_ms),
        ).fetchall()
        return _message(rows[0])

    def message(self, chat: FakeChat, message_id: str) -> FakeMessage | None:
        row = self.conn.execute(
            f"SELECT {_MESSAGE} FROM messages"  # noqa: S608
            " WHERE platform = ? AND chat = ? AND id = ? AND deleted_ms IS NULL",
            (chat.platform, chat.id, message_id),
        ).fetchone()
        return _message(row) if row else None

    def message_with_nonce(self, chat: FakeChat, nonce: str, *, since_ms: int) -> FakeMessage | None:
        row = self.conn.execute(
            f"SELECT {_MESSAGE} FROM messages"  # noqa: S608
            " WHERE platform = ? AND chat = ? AND nonce = ? AND created_ms >= ? AND deleted_ms IS NULL",
            (chat.platform, chat.id, nonce, since_ms),
        ).fetchone()
        return _message(row) if row else None

    def change(
        self,
        message: FakeMessage,
        *,
        text: str | None = None,
        detail: Mapping[str, Any] | None = None,
        edited_ms: int | None,
    ) -> FakeMessage:
        """The message with a new *text* or *detail*; None keeps the old one."""
        rows = self.conn.execute(
            "UPDATE messages SET text = coalesce(?, text), detail = coalesce(?, detail),"  # noqa: S608
            f" edited_ms = coalesce(?, edited_ms) WHERE seq = ? RETURNING {_MESSAGE}",
            (text, _dump(detail) if detail is not None else None, edited_ms, message.seq),
        ).fetchall()
        return _message(rows[0])

    def delete(self, message: FakeMessage, *, now_ms: int) -> None:
        self.conn.execute("UPDATE messages SET deleted_ms = ? WHERE seq = ?", (now_ms, message.seq))

    def transcript(
        self, chat: FakeChat, *, limit: int = 500, before: int | None = None, after: int = 0
    ) -> list[FakeMessage]:
        """The last *limit* messages, oldest first, of those between the ``seq`` *after* and *before*; -1: all."""
        rows = self.conn.execute(
            f"SELECT {_MESSAGE} FROM messages"  # noqa: S608
            " WHERE platform = ?1 AND chat = ?2 AND deleted_ms IS NULL AND (?4 IS NULL OR seq < ?4)"
            " AND seq > ?5 ORDER BY seq DESC LIMIT ?3",
            (chat.platform, chat.id, limit, before, after),
        ).fetchall()
        return [_message(row) for row in reversed(rows)]

    def newest(self) -> int:
        """The ``seq`` of the newest message of all chats that is stored; 0: there is none."""
        return int(self.conn.execute("SELECT ifnull(max(seq), 0) FROM messages").get)

    def last_message(self, chat: FakeChat) -> FakeMessage | None:
        """The last message that all members see."""
        row = self.conn.execute(
            f"SELECT {_MESSAGE} FROM messages WHERE platform = ? AND chat = ? AND deleted_ms IS NULL"  # noqa: S608
            " AND detail ->> '$.for' IS NULL ORDER BY seq DESC LIMIT 1",
            (chat.platform, chat.id),
        ).fetchone()
        return _message(row) if row else None


def _dump(value: Mapping[str, Any] | Iterable[str] | Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _chat(row: tuple[Any, ...]) -> FakeChat:
    platform, chat_id, kind, title, members, facts = row
    return FakeChat(platform, chat_id, kind, title, tuple(json.loads(members)), json.loads(facts))


def _message(row: tuple[Any, ...]) -> FakeMessage:
    seq, platform, chat, message_id, author, is_bot, text, detail, created_ms, edited_ms, nonce = row
    return FakeMessage(
        seq, platform, chat, message_id, author, bool(is_bot), text, json.loads(detail), created_ms, edited_ms, nonce
    )
