"""The record of all requests between the fake platforms and the bot: calls out to a platform, webhooks in to the bot.

Each is kept with what was sent and what was answered: the newest ones only, cut where they are long, and with a mask in
place of tokens. *What happened* on the chat page and ``emulator requests`` read it.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import apsw

from shared.core.text import half_characters
from shared.core.text.redaction import MASK

KEEP = 5000  # of each direction
MOST = 32_768  # characters of one body

SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    platform TEXT NOT NULL, at_ms INTEGER NOT NULL, method TEXT NOT NULL, chat TEXT, status INTEGER NOT NULL,
    params TEXT NOT NULL, answer TEXT NOT NULL, fault TEXT, took_ms REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS calls_chat ON calls (platform, chat, seq);

-- One attempt to deliver an update or an interaction. ref: its id; status NULL: no answer, and error says why.
CREATE TABLE IF NOT EXISTS webhooks (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    platform TEXT NOT NULL, at_ms INTEGER NOT NULL, kind TEXT NOT NULL, ref TEXT NOT NULL, chat TEXT,
    body TEXT NOT NULL, status INTEGER, answer TEXT NOT NULL, error TEXT, took_ms REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS webhooks_ref ON webhooks (platform, ref);
"""
_CALL = ("seq", "platform", "at_ms", "method", "chat", "status", "params", "answer", "fault", "took_ms")
_WEBHOOK = ("seq", "platform", "at_ms", "kind", "ref", "chat", "body", "status", "answer", "error", "took_ms")
_SECRET_KEYS = frozenset({"token", "secret_token", "webhook_token"})
_TELEGRAM_TOKEN = re.compile(r"(?<!\d)\d{6,16}:[A-Za-z0-9_-]{30,}")


class RequestLog:
    """Two tables of ``platforms.db``; *conn* is the store's connection."""

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn
        conn.execute(SCHEMA)

    def add_call(self, platform: str, **facts: Any) -> dict[str, Any]:
        """Log a call of the bot: ``at_ms method chat status params answer fault took_ms``; returns it with ``seq``."""
        return self._add("calls", _CALL, {"platform": platform, **facts}, ("params", "answer"))

    def add_webhook(self, platform: str, **facts: Any) -> dict[str, Any]:
        """Log one attempt of a delivery: ``at_ms kind ref chat body status answer error took_ms``."""
        return self._add("webhooks", _WEBHOOK, {"platform": platform, **facts}, ("body", "answer"))

    def _add(
        self, table: str, columns: tuple[str, ...], facts: Mapping[str, Any], bodies: tuple[str, str]
    ) -> dict[str, Any]:
        kept = {**facts, **{name: fitted(facts[name]) for name in bodies}}
        values = [_dump(kept[name]) if name in bodies else kept[name] for name in columns[1:]]
        rows: list[tuple[Any, ...]] = self._conn.execute(
            f"INSERT INTO {table} ({', '.join(columns[1:])}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608
            " RETURNING seq",
            values,
        ).fetchall()
        seq = int(rows[0][0])
        if seq % 500 == 0:
            self._conn.execute(f"DELETE FROM {table} WHERE seq <= ?", (seq - KEEP,))  # noqa: S608
        return {"seq": seq, **kept}

    def calls(self, platform: str | None, *, method: str | None = None, **where: Any) -> list[dict[str, Any]]:
        """The last calls, oldest first; *where* is the chat and the range, as for :meth:`webhooks`."""
        return self._read("calls", _CALL, "method", method, platform, **where)

    def webhooks(self, platform: str | None, *, ref: str | None = None, **where: Any) -> list[dict[str, Any]]:
        """The last attempts, oldest first; *ref*: those of one update or interaction.

        *where* may be ``chat``, ``after`` and ``until`` (numbers), ``is_refused`` (a bad answer, or none), ``limit``.
        """
        return self._read("webhooks", _WEBHOOK, "ref", ref, platform, **where)

    def _read(
        self,
        table: str,
        columns: tuple[str, ...],
        name: str,
        value: str | None,
        platform: str | None,
        *,
        chat: str | None = None,
        after: int = 0,
        until: int | None = None,
        is_refused: bool = False,
        limit: int = 1000,
    ) -> list[dict[str, Any]]:
        rows = self._conn.execute(
            f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608
            " WHERE (:platform IS NULL OR platform = :platform) AND seq > :after AND (:until IS NULL OR seq <= :until)"
            f" AND (:chat IS NULL OR chat = :chat) AND (:value IS NULL OR {name} = :value COLLATE NOCASE)"
            " AND (NOT :is_refused OR ifnull(status, 0) NOT BETWEEN 200 AND 399) ORDER BY seq DESC LIMIT :limit",
            {
                "platform": platform, "after": after, "until": until, "chat": chat, "value": value,
                "is_refused": is_refused, "limit": limit,
            },
        ).fetchall()  # fmt: skip
        return [_decoded(dict(zip(columns, row, strict=True))) for row in reversed(rows)]


def fitted(value: Any) -> Any:
    """The JSON *value* as it is kept: without tokens, and not too long."""
    try:
        return bounded(masked(value))
    except RecursionError:
        return "(nested too deeply to be kept)"


def masked(value: Any) -> Any:
    """The JSON *value* with a mask in place of tokens."""
    if isinstance(value, str):
        return _TELEGRAM_TOKEN.sub(MASK, value)
    if isinstance(value, list | tuple):
        return [masked(each) for each in value]
    if isinstance(value, Mapping):
        return {key: MASK if key in _SECRET_KEYS and each else masked(each) for key, each in value.items()}
    return value


def bounded(value: Any) -> Any:
    """*value*, or its beginning as a text where it is longer than a body that is kept."""
    written = _dump(value)
    return value if len(written) <= MOST else f"{written[:MOST]}… ({len(written)} characters; the rest is not kept)"


def read_body(raw: bytes) -> Any:
    """A body as JSON, or as the text that it is; half characters, which no file takes, are replaced."""
    try:
        return half_characters.read_json(raw)
    except (ValueError, RecursionError):
        return raw.decode("utf-8", "replace")


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: json.loads(each) if key in ("params", "body", "answer") else each for key, each in row.items()}


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
