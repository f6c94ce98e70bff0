"""Sessions that a test resets, and turns in them."""

import json

from shared.db.engine.connection import transaction
from shared.queue import session_reset, turns
from shared.queue.turns import TurnReply
from tests.support import NOW, row

HOUR = 3_600_000
DAILY = {"recurrence": "0 9 * * *", "timezone": "UTC", "series_id": "task_daily000", "scheduled_at": NOW + HOUR}


def reset(conn, session, now_ms=NOW + 1):
    """In a transaction of its own."""
    with transaction(conn):
        return session_reset.reset(conn, session, now_ms=now_ms)


def settle(conn, claim, *texts_, continuation="1", now_ms=NOW):
    """Each message that asked is answered with the text in its place."""
    with transaction(conn):
        said = [TurnReply(text, asked) for text, asked in zip(texts_, claim.asked, strict=True)]
        turns.settle(conn, claim, said, continuation, now_ms=now_ms)


def of(conn, session):
    """What stands in the session: text and status, in order."""
    return conn.execute("SELECT message, status FROM messages WHERE session_id = ? ORDER BY id", (session,)).fetchall()


def newest(conn):
    """Of the events: the last one's type, data and session."""
    event = row(conn, "events")
    return event["type"], json.loads(event["data"]), event["session_id"]
