"""People whose lines are deleted from an agent's history: the newest at once, older ones in steps.

A line belongs to the person who wrote it, or whose message it answers. Earlier releases did not record that person; of
their lines, only those in the person's own direct chats are deleted.
"""

from typing import NamedTuple

import apsw

from shared.core.accounts import platform_of
from shared.db.engine.connection import rows, scalar


class ForgottenPerson(NamedTuple):
    """A person whose lines of *agent* before the line *before* are deleted."""

    agent: str
    platform: str
    sender_id: str
    before: int


OLDEST = """
    SELECT id
      FROM agent_messages
     WHERE agent_id = :agent AND id < :before
     ORDER BY id DESC
     LIMIT 1 OFFSET :limit - 1
"""
OF_PERSON = """
    (sender_id = :sender_id AND (channel = :platform OR channel GLOB :platform || '.*'))
    OR (sender_id IS NULL AND channel <> 'internal'
        AND EXISTS (SELECT 1
                      FROM sessions s
                      LEFT JOIN chats c ON c.id = s.chat_id
                     WHERE s.id = agent_messages.session_id AND s.agent = agent_messages.agent_id
                       AND ((s.private_to = :sender_id
                             AND (c.channel = :platform OR c.channel GLOB :platform || '.*'))
                            OR s.chat_id IN (SELECT d.chat_id
                                               FROM users u
                                               JOIN user_dms d ON d.user_id = u.id
                                              WHERE u.channel = :platform AND u.sender_id = :sender_id))))
"""
DELETE = f"""
    DELETE FROM agent_messages
     WHERE agent_id = :agent AND id >= :oldest AND id < :before AND ({OF_PERSON})
    RETURNING id, session_id
"""


class DeletedLines(NamedTuple):
    """What one step deleted: the row and the session of each line. *next*: the next step; None: it is done."""

    lines: list[tuple[int, int | None]]
    next: ForgottenPerson | None

    @property
    def sessions(self) -> list[int | None]:
        """The sessions of the lines, each once."""
        return list(dict.fromkeys(session for _, session in self.lines))


def of(agent: str, channel: str, sender_id: str) -> ForgottenPerson:
    """All lines of the person on the platform of *channel*."""
    return ForgottenPerson(agent, platform_of(channel), sender_id, 2**62)


def delete_slice(conn: apsw.Connection, whom: ForgottenPerson, *, limit: int) -> DeletedLines:
    """Delete the lines of the person among the *limit* newest ones before ``whom.before``."""
    key = whom._asdict()
    oldest: int | None = scalar(conn, OLDEST, {"agent": whom.agent, "before": whom.before, "limit": limit})
    deleted = rows(conn, DELETE, {**key, "oldest": oldest or 0})
    return DeletedLines(deleted, None if oldest is None else whom._replace(before=oldest))


def put_off(conn: apsw.Connection, whom: ForgottenPerson) -> None:
    """Leave the rest to ``sweep``."""
    conn.execute(
        """
        INSERT INTO forgotten_people (agent, platform, sender_id, before)
        VALUES (:agent, :platform, :sender_id, :before)
        ON CONFLICT (agent, platform, sender_id) DO UPDATE SET before = max(before, excluded.before)
        """,
        whom._asdict(),
    )


def take(conn: apsw.Connection) -> ForgottenPerson | None:
    """Take out a person whose lines are left to ``sweep``; None: there is none."""
    found = rows(
        conn,
        """
        DELETE FROM forgotten_people
         WHERE (agent, platform, sender_id) IN (SELECT agent, platform, sender_id FROM forgotten_people LIMIT 1)
        RETURNING agent, platform, sender_id, before
        """,
    )
    return ForgottenPerson(*found[0]) if found else None
