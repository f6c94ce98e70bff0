"""A bad day on top of a finished history: what waits, is dead, can't be sent, was refused, is planned and was spent."""

import time
from pathlib import Path

from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, scalar, transaction

TABLES = ("messages", "responses", "events", "agent_messages", "approvals", "dropped", "schedule_runs", "usage")
_NUMBERS = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)"
_TEXT = "Could you look at the report that came in this morning and tell me what changed since last week?"
_MESSAGES = f"""
    {_NUMBERS}
    INSERT INTO messages (message_id, id_prefix, channel, chat_id, platform_id, platform_message_id, sender, sender_id,
                          message, agent, session_id, status, retry_count, failure, last_error, process_after,
                          recurrence, timezone, scheduled_at, series_id, kind, created_at, updated_at)
    SELECT :prefix || '_' || lower(hex(randomblob(8))), :prefix, 'telegram', c.id, c.platform_id, n, 'Ana', n,
           '{_TEXT}', s.agent, s.id, :status, iif(:failure IS NULL, 0, 5), :failure, :error, :after,
           iif(:cron, '0 8 * * *', NULL), iif(:cron, 'UTC', NULL), iif(:cron, :after, NULL),
           iif(:cron, 'series_' || n, NULL), iif(:cron, 'task', 'chat'), :now - :count + n, :now
      FROM numbers
      JOIN sessions s ON s.id = (SELECT min(id) FROM sessions) + n % :sessions
      JOIN chats c ON c.id = s.chat_id
"""
_RESPONSES = f"""
    {_NUMBERS}
    INSERT INTO responses (message_id, in_reply_to, channel, chat_id, platform_id, session_id, sender, sender_id,
                           message, agent, status, failure, last_error, created_at, acked_at)
    SELECT 'telegram_' || n, (SELECT max(id) FROM messages) - n, 'telegram', c.id, c.platform_id, s.id, 'Ana', n,
           '{_TEXT}', s.agent, :status, :failure, :error, :now - :count + n, iif(:status = 'acked', :now, NULL)
      FROM numbers
      JOIN sessions s ON s.id = (SELECT min(id) FROM sessions) + n % :sessions
      JOIN chats c ON c.id = s.chat_id
"""
_DROPPED = f"""
    {_NUMBERS}
    INSERT INTO dropped (channel, platform_id, sender_id, event_key, reason, created_at, sender)
    SELECT 'telegram', 10000 + n % 1000, n, 'dropped:' || n, iif(n % 2, 'not_wired', 'not_engaged'), :now, 'Ben'
      FROM numbers
"""
_APPROVALS = f"""
    {_NUMBERS}
    INSERT INTO approvals (approval_id, kind, agent, status, expires_at, created_at, updated_at, title, options)
    SELECT 'approval_' || n, 'tool', 'agent-1', 'pending', :now + 3600000, :now, :now, 'May it?', '["Yes","No"]'
      FROM numbers
"""
_RUNS = f"""
    {_NUMBERS}
    INSERT INTO schedule_runs (series_id, message_id, due_at, started_at, recurrence, timezone)
    SELECT 'series_' || (1 + n % 200), 'task_' || n, :now - n * 60000, :now - n * 60000, '0 8 * * *', 'UTC'
      FROM numbers
"""
_USAGE = f"""
    {_NUMBERS}
    INSERT INTO usage (turn, agent, session, model, paid_by, requests, input, output, cache_read, cache_write, cost,
                       created_at, updated_at)
    SELECT 'turn_' || n, s.agent, s.session_id, 'model', 'key', 2, 1000, 100, 5000, 100, 1500,
           :month + n * 17280, :month + n * 17280
      FROM numbers
      JOIN sessions s ON s.id = (SELECT min(id) FROM sessions) + n % :sessions
"""


class Trouble:
    """The rows of the bad day, from ``add`` to ``remove``. *share*: how much of it, of 1.

    120,000 messages of today are done; 20,000 wait in one conversation and 20,000 in 400; 10,000 are dead; 10,000
    answers wait and 5,000 could not be sent; 500 requests, 200 schedules, 20,000 refusals, 100,000 turns of the month.
    """

    def __init__(self, path: Path, share: float) -> None:
        self._conn = open_connection(path)
        self._share = share
        self._before = {table: scalar(self._conn, f"SELECT max(id) FROM {table}") or 0 for table in TABLES}

    def add(self) -> None:
        """Store the rows."""
        now = int(time.time() * 1000)
        some = {"failure": None, "error": None, "after": None, "cron": 0, "now": now, "prefix": "telegram"}
        dead = {"failure": "error", "error": "the program ended with code 1"}
        for sql, count, sessions, given in (
            (_MESSAGES, 120_000, 1000, {**some, "status": "completed"}),
            (_RESPONSES, 120_000, 1000, {**some, "status": "acked"}),
            (_MESSAGES, 20_000, 1, {**some, "status": "pending"}),
            (_MESSAGES, 20_000, 400, {**some, "status": "pending"}),
            (_MESSAGES, 200, 200, {**some, "status": "pending", "after": now + 3_600_000, "cron": 1, "prefix": "task"}),
            (_MESSAGES, 10_000, 200, {**some, **dead, "status": "dead"}),
            (_RESPONSES, 10_000, 100, {**some, "status": "pending"}),
            (_RESPONSES, 5_000, 100, {**some, **dead, "status": "dead"}),
            (_DROPPED, 20_000, 1, some),
            (_APPROVALS, 500, 1, some),
            (_RUNS, 10_000, 1, some),
            (_USAGE, 100_000, 1000, {**some, "month": now - 20 * 86_400_000}),
        ):
            with transaction(self._conn):
                asked = {**given, "count": max(1, int(count * self._share)), "sessions": sessions}
                rows(self._conn, sql, {name: value for name, value in asked.items() if f":{name}" in sql})
        with transaction(self._conn):
            self._conn.execute(
                """
                INSERT INTO budgets (agent, period, unit, amount, created_at, updated_at)
                VALUES (NULL, 'month', 'money', 1000000000, 1, 1)
                """
            )
            meta.put(self._conn, "announced", str(scalar(self._conn, "SELECT max(id) FROM messages")))

    def remove(self) -> None:
        """Delete them again."""
        with transaction(self._conn):
            for table, last in self._before.items():
                self._conn.execute(f"DELETE FROM {table} WHERE id > ?", (last,))
            self._conn.execute("DELETE FROM budgets")
            meta.put(self._conn, "announced", str(self._before["messages"]))
        self._conn.close()
