"""Databases of earlier schemas, with rows in each of their tables."""

import os
import re
import signal
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw

from shared.db.engine import copies
from shared.db.engine.connection import open_connection, rows, transaction
from tests.support import NOW, dump

STATES = ("pending", "processing", "completed", "dead", "paused", "cancelled")
SEED = """
    INSERT INTO meta (key, value) VALUES ('schema_version', '1'), ('epoch', 'epoch_12345678');
    INSERT INTO agents (id, name, is_default, created_at, updated_at) VALUES ('assistant', 'Assistant', 1, 1, 1);
    INSERT INTO chats (channel, platform_id, created_at, updated_at) VALUES ('telegram', '100', 1, 1);
    INSERT INTO wirings (chat_id, agent, created_at) VALUES (1, 'assistant', 1);
    INSERT INTO sessions (session_id, agent, chat_id, created_at, last_active)
    VALUES ('session_1', 'assistant', 1, 1, 1);
    INSERT INTO agent_messages (agent_id, role, channel, sender, message_id, content, created_at)
    VALUES ('assistant', 'user', 'telegram', 'Ana', 'telegram_zzzz0001', 'hello', 1);
    INSERT INTO dropped (channel, reason, created_at) VALUES ('telegram', 'payload', 1);
    INSERT INTO responses (message_id, in_reply_to, channel, chat_id, platform_id, sender, message, status, created_at,
                           acked_at)
    VALUES ('telegram_zzzz0003', 3, 'telegram', 1, '100', 'Ana', 'hi', 'acked', 1, 2),
           ('telegram_zzzz0003', 3, 'telegram', 1, '100', 'Ana', 'and', 'pending', 1, NULL);
"""

# What the least row of a table needs beside its columns that may not be NULL.
BESIDE = {
    "albums": {"due_at": 1},
    "channel_outages": {"probe_at": 1},
    "memory_lines": {"with_strangers": 0},
    "restore_proofs": {"lost_rows": 0},
}


def make_first(path: Path) -> apsw.Connection:
    """The file: a message in every state, as trigger and as context, and what is around them. A connection to it."""
    conn = open_connection(path)
    with transaction(conn):
        rows(conn, (files("shared.db") / "migrations" / "0001_first_light.sql").read_text("utf-8"))
        rows(conn, SEED)
        for number, (status, trigger) in enumerate([(status, trigger) for status in STATES for trigger in (1, 0)]):
            held = ("turn_old", NOW + 1000) if status == "processing" else (None, None)
            rows(
                conn,
                """
                INSERT INTO messages (message_id, channel, chat_id, platform_id, event_key, sender, sender_id, message,
                                      content, files, agent, session_id, trigger, status, retry_count, last_error,
                                      claimed_by, lease, process_after, created_at, updated_at)
                VALUES (?, 'telegram', 1, '100', ?, 'Ana', '5', ?, '{"context": {"a": 1}}', '["f"]', 'assistant', 1, ?,
                        ?, 2, 'why', ?, ?, ?, ?, ?)
                """,
                (
                    *(f"telegram_zzzz{number:04d}", f"e{number}", f"text {number}", trigger, status, *held),
                    *(NOW + number, NOW, NOW + 1),
                ),
            )
            message_id = f"telegram_zzzz{number:04d}"
            rows(
                conn,
                "INSERT INTO events (type, message_id, data, created_at) VALUES ('message_received', ?, '{}', 1)",
                (message_id,),
            )
        rows(
            conn,
            "UPDATE messages SET recurrence = '0 9 * * *', timezone = 'UTC', series_id = 'series_1', scheduled_at = ?"
            " WHERE id IN (1, 7)",
            (NOW,),
        )
        rows(conn, "UPDATE messages SET series_id = 'series_2' WHERE id = 7")
        rows(conn, "DELETE FROM messages WHERE id = 5")  # pruned: rows have gaps
        rows(conn, "DELETE FROM events WHERE id < 4")
    return conn


def fill_tables(conn: apsw.Connection) -> None:
    """Give each table that has no row one, whatever the schema: the least that it takes."""
    empty = {name for name, count in copies.counts(conn).items() if not count}
    while empty:
        filled, reasons = set(), {}
        for table in sorted(empty):
            row = _least_row(conn, table)
            names, places = ", ".join(row), ", ".join("?" * len(row))
            try:
                conn.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(row.values()))
            except apsw.ConstraintError as error:  # its row names one of another table
                reasons[table] = error
            else:
                filled.add(table)
        assert filled, reasons
        empty -= filled


def _least_row(conn: apsw.Connection, table: str) -> dict[str, object]:
    ((sql,),) = rows(conn, "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,))
    named = {column: (other, key) for _, _, other, column, key, *_ in rows(conn, f"PRAGMA foreign_key_list({table})")}
    info = rows(conn, f"PRAGMA table_info({table})")
    row: dict[str, object] = {}
    for _, column, kind, is_filled, default, place in info:
        if column in named and (is_filled or table == "destinations"):
            other, key = named[column]
            found = rows(conn, f"SELECT {key or 'id'} FROM {other} LIMIT 1")
            row |= {column: found[0][0]} if found and column != "target_agent" else {}
        elif default is None and (is_filled or place) and (column, kind) != ("id", "INTEGER"):
            row[column] = _value(sql, column) if kind == "TEXT" else 1
    return row | BESIDE.get(table, {})


def _value(sql: str, column: str) -> str:
    if word := re.search(rf"\b{column} = '(\w+)'", sql):
        return word[1]
    if f"json_type({column}) = 'array'" in sql:
        return "[]"
    return "{}" if f"({column})" in sql and "json" in sql else f"{column}-1"


def read(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of the database in this file."""
    conn = open_connection(path)
    try:
        return dump(conn)
    finally:
        conn.close()


def die_before(words: str, number: int) -> None:
    """Have the kernel kill this process before it runs the *number*th statement that begins with the *words*."""
    left = number

    def look(_: Any, sql: str, __: Any) -> bool:
        nonlocal left
        left -= sql.startswith(words)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    apsw.connection_hooks.append(lambda conn: setattr(conn, "exec_trace", look))
