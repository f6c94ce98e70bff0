"""Keys of events: what makes a late copy known when the event's message is pruned, or when it never was a message.

A key is kept for ``KEPT_MS``, whatever the retention. Routing refuses an older event by the platform's own date.
"""

import json
from collections.abc import Sequence

import apsw

from shared.db.engine.connection import rows, scalar

KEPT_MS = 72 * 60 * 60 * 1000
"""Longer than any platform repeats an event; Telegram does so for a day."""

GIVEN = ""
"""In place of a channel: the key is the id that a caller gave its message. Such a message has this ``id_prefix``."""

_ADD = """
    INSERT INTO event_keys (channel, event_key, agent, created_at)
    VALUES (:channel, :event_key, '', :now)
    ON CONFLICT (channel, event_key, agent) DO NOTHING
"""

_OF_MESSAGES = """
    INSERT INTO event_keys (channel, event_key, agent, created_at)
    SELECT channel, event_key, agent, created_at
      FROM messages
     WHERE id IN (SELECT value FROM json_each(:rows)) AND event_key IS NOT NULL AND created_at > :forgotten
     UNION ALL
    SELECT '', message_id, '', created_at
      FROM messages
     WHERE id IN (SELECT value FROM json_each(:rows)) AND id_prefix = '' AND created_at > :forgotten
    ON CONFLICT (channel, event_key, agent) DO NOTHING
"""

PRUNE = """
    DELETE FROM event_keys
     WHERE (channel, event_key, agent) IN (SELECT channel, event_key, agent
                                             FROM event_keys
                                            WHERE created_at <= :cutoff
                                            ORDER BY created_at
                                            LIMIT :limit)
"""


def add(conn: apsw.Connection, channel: str, event_key: str, *, now_ms: int) -> bool:
    """Keep the key of an event that is no message. False: it is known already."""
    conn.execute(_ADD, {"channel": channel, "event_key": event_key, "now": now_ms})
    return conn.changes() == 1


def keep(conn: apsw.Connection, message_rows: Sequence[int], *, forgotten_ms: int) -> None:
    """Keep the keys of these messages, which are about to be deleted, unless they came before *forgotten_ms*."""
    conn.execute(_OF_MESSAGES, {"rows": json.dumps(list(message_rows)), "forgotten": forgotten_ms})


def is_given(conn: apsw.Connection, message_id: str) -> bool:
    """Whether a caller gave this id to a message that is deleted by now."""
    return bool(
        scalar(
            conn, "SELECT 1 FROM event_keys WHERE channel = '' AND event_key = :id AND agent = ''", {"id": message_id}
        )
    )


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Forget up to *limit* keys of events from before *older_than_ms*, the oldest first; how many."""
    rows(conn, PRUNE, {"cutoff": older_than_ms, "limit": limit})
    return conn.changes()
