"""Pairings: one-time codes that make a person an owner, an admin or a member, or wire a chat.

Only the code's hash is stored. A code works once, and expires soon.
"""

from typing import Literal, NamedTuple

import apsw

from shared.core import ids
from shared.db.engine.connection import rows

Grants = Literal["owner", "admin", "member", "chat"]


class Pairing(NamedTuple):
    """A row of ``pairings`` without the hash; *status* is ``open``, ``used``, ``expired`` or ``revoked``."""

    id: int
    pairing_id: str
    grants: str
    agent: str | None
    status: str
    used_by: int | None
    expires_at: int
    created_at: int


_SELECT = "SELECT id, pairing_id, grants, agent, status, used_by, expires_at, created_at FROM pairings"


def add(
    conn: apsw.Connection, *, code_hash: str, grants: Grants, agent: str | None, expires_at: int, now_ms: int
) -> Pairing:
    """Insert an open pairing."""
    found = rows(
        conn,
        """
        INSERT INTO pairings (pairing_id, code_hash, grants, agent, expires_at, created_at, updated_at)
        VALUES (:pairing_id, :code_hash, :grants, :agent, :expires_at, :now, :now)
        RETURNING id, pairing_id, grants, agent, status, used_by, expires_at, created_at
        """,
        {
            "pairing_id": ids.new("pairing"),
            "code_hash": code_hash,
            "grants": grants,
            "agent": agent,
            "expires_at": expires_at,
            "now": now_ms,
        },
    )
    return Pairing(*found[0])


def find_open(conn: apsw.Connection, code_hash: str, now_ms: int) -> Pairing | None:
    """The pairing with this code that can still be used, or None."""
    found = rows(
        conn,
        _SELECT + " WHERE code_hash = :code_hash AND status = 'open' AND expires_at > :now",
        {"code_hash": code_hash, "now": now_ms},
    )
    return Pairing(*found[0]) if found else None


def use(conn: apsw.Connection, id_: int, user_id: int, now_ms: int) -> bool:
    """Use the pairing for this user. False: it is used already, revoked, or its time is over."""
    conn.execute(
        """
        UPDATE pairings
           SET status = 'used', used_by = :user_id, updated_at = :now
         WHERE id = :id AND status = 'open' AND expires_at > :now
        """,
        {"id": id_, "user_id": user_id, "now": now_ms},
    )
    return conn.changes() == 1


def is_used_by(conn: apsw.Connection, code_hash: str, user_id: int) -> bool:
    """Whether this user has used the code."""
    key = {"code_hash": code_hash, "user_id": user_id}
    return bool(rows(conn, "SELECT 1 FROM pairings WHERE code_hash = :code_hash AND used_by = :user_id", key))


def revoke(conn: apsw.Connection, pairing_id: str, *, now_ms: int) -> bool:
    """Revoke an open pairing. False: there is no such pairing, or it is not open."""
    conn.execute(
        """
        UPDATE pairings SET status = 'revoked', updated_at = :now
         WHERE pairing_id = :pairing_id AND status = 'open' AND expires_at > :now
        """,
        {"pairing_id": pairing_id, "now": now_ms},
    )
    return conn.changes() == 1


EXPIRE = """
    UPDATE pairings
       SET status = 'expired', updated_at = :now
     WHERE id IN (SELECT id FROM pairings WHERE status = 'open' AND expires_at <= :now ORDER BY expires_at LIMIT :limit)
"""


def expire(conn: apsw.Connection, *, limit: int, now_ms: int) -> int:
    """Expire up to *limit* open pairings whose time is over; how many."""
    conn.execute(EXPIRE, {"limit": limit, "now": now_ms})
    return conn.changes()


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete up to *limit* pairings that ended before *older_than_ms*; how many. There are few: people create them."""
    conn.execute(
        """
        DELETE FROM pairings
         WHERE id IN (SELECT id FROM pairings WHERE status <> 'open' AND updated_at < :cutoff ORDER BY id LIMIT :limit)
        """,
        {"cutoff": older_than_ms, "limit": limit},
    )
    return conn.changes()


def get(conn: apsw.Connection, pairing_id: str) -> Pairing | None:
    """The pairing with this public id, or None."""
    found = rows(conn, _SELECT + " WHERE pairing_id = :pairing_id", {"pairing_id": pairing_id})
    return Pairing(*found[0]) if found else None
