"""Users: one person or program on one platform. The identity is the platform and the sender's id, and nothing else.

All accounts of a platform know the same people: *channel* may be any of its accounts, and the row has the platform.

A sender gets a row with a role, a pairing, or an approval about them. A name proves nothing.
"""

from typing import NamedTuple

import apsw

from shared.core.accounts import platform_of
from shared.db.engine.connection import rows

_BRACKETS = str.maketrans("()", "[]")


class User(NamedTuple):
    """A row of ``users``."""

    id: int
    channel: str
    sender_id: str
    name: str

    @property
    def display_name(self) -> str:
        """For people: ``telegram 4711 (Ana)``. Never compared. Parentheses in the name are replaced."""
        return f"{self.channel} {self.sender_id}" + (f" ({self.name.translate(_BRACKETS)})" if self.name else "")


def find(conn: apsw.Connection, channel: str, sender_id: str) -> User | None:
    """The user whom the platform knows as *sender_id*, or None."""
    found = rows(
        conn,
        "SELECT id, channel, sender_id, name FROM users WHERE channel = :channel AND sender_id = :sender_id",
        {"channel": platform_of(channel), "sender_id": sender_id},
    )
    return User(*found[0]) if found else None


def get(conn: apsw.Connection, id_: int) -> User | None:
    """The user, or None."""
    found = rows(conn, "SELECT id, channel, sender_id, name FROM users WHERE id = :id", {"id": id_})
    return User(*found[0]) if found else None


def ensure(conn: apsw.Connection, channel: str, sender_id: str, *, name: str, now_ms: int) -> User:
    """Find or create the user; a new name replaces the old one, an empty name does not."""
    found = rows(
        conn,
        """
        INSERT INTO users (channel, sender_id, name, created_at, updated_at)
        VALUES (:channel, :sender_id, :name, :now, :now)
        ON CONFLICT (channel, sender_id) DO UPDATE
           SET name = CASE excluded.name WHEN '' THEN name ELSE excluded.name END, updated_at = excluded.updated_at
        RETURNING id, channel, sender_id, name
        """,
        {"channel": platform_of(channel), "sender_id": sender_id, "name": name, "now": now_ms},
    )
    return User(*found[0])


def delete(conn: apsw.Connection, id_: int) -> bool:
    """Delete the user with roles and memberships. False: there is no such user.

    A foreign key keeps a user about whom an approval is pending.
    """
    conn.execute("UPDATE approvals SET user_id = NULL WHERE user_id = :id AND status <> 'pending'", {"id": id_})
    conn.execute("UPDATE approvals SET approver = NULL WHERE approver = :id", {"id": id_})
    conn.execute("DELETE FROM users WHERE id = :id", {"id": id_})
    return conn.changes() == 1
