"""Drafts: previews of running turns. A platform's stop button names the draft; the row says which turn that is."""

from typing import NamedTuple

import apsw

from shared.core import chance
from shared.db.engine.connection import rows

_LARGEST = 2**31 - 1


class Draft(NamedTuple):
    """A row: the turn whose answer is previewed in a chat. *turn* is ``messages.claimed_by``."""

    id: int
    turn: str
    agent: str
    session_id: int
    channel: str
    platform_id: str


_ADD = """
    INSERT INTO drafts (id, turn, agent, session_id, channel, platform_id, created_at)
    VALUES (:id, :turn, :agent, :session, :channel, :platform, :now)
        ON CONFLICT DO NOTHING
"""


def add(
    conn: apsw.Connection, turn: str, *, agent: str, session_id: int, channel: str, platform_id: str, now_ms: int
) -> int | None:
    """Store the draft of a turn under a random id; None: the turn has one, or, once in ages, the id was taken."""
    drawn = chance.below(_LARGEST) + 1
    values = {"id": drawn, "turn": turn, "agent": agent, "session": session_id}
    conn.execute(_ADD, {**values, "channel": channel, "platform": platform_id, "now": now_ms})
    return drawn if conn.changes() else None


def find(conn: apsw.Connection, draft_id: int, *, channel: str, platform_id: str) -> Draft | None:
    """The draft that this chat was shown under this id, or None."""
    found = rows(
        conn,
        """
        SELECT id, turn, agent, session_id, channel, platform_id
          FROM drafts
         WHERE id = :id AND channel = :channel AND platform_id = :platform
        """,
        {"id": draft_id, "channel": channel, "platform": platform_id},
    )
    return Draft(*found[0]) if found else None


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete old rows, whose turns are over; how many."""
    conn.execute(
        """
        DELETE FROM drafts
         WHERE id IN (SELECT id FROM drafts WHERE created_at < :cutoff ORDER BY created_at LIMIT :limit)
        """,
        {"cutoff": older_than_ms, "limit": limit},
    )
    return conn.changes()
