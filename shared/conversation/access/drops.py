"""Keeps the reason for which an event is dropped, and never its text."""

import apsw

from shared.channels.base import Event
from shared.db.access import dropped


def keep(conn: apsw.Connection, channel: str, event: Event, reason: str, *, now_ms: int) -> bool:
    """Keep the *reason*, a word or ``word:detail``; False if this event has a reason already."""
    word, _, detail = reason.partition(":")
    dropped.record(
        conn,
        channel=channel,
        reason=word,
        detail=detail,
        platform_id=event.platform_id,
        sender_id=event.sender_id,
        sender=event.sender,
        platform_message_id=event.platform_message_id,
        event_key=event.event_key,
        now_ms=now_ms,
    )
    return conn.changes() == 1
