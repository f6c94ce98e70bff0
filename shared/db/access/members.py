"""Members of agents, and the users whom an approver refused. ``shared.access.people`` writes them."""

from typing import Any, NamedTuple, Self

import apsw

from shared.db.engine.connection import rows


class Member(NamedTuple):
    """A row of ``members``. *added_by* is for display, and never compared."""

    user_id: int
    agent: str
    is_refused: bool
    added_by: str
    created_at: int

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> Self:
        """From the columns in the order of the fields."""
        user_id, agent, is_refused, added_by, created_at = row
        return cls(user_id, agent, bool(is_refused), added_by, created_at)


def put(conn: apsw.Connection, user_id: int, agent: str, *, is_refused: bool, by: str, now_ms: int) -> bool:
    """Make the user a member, or refuse them. False: it was so already, and *added_by* stays."""
    conn.execute(
        """
        INSERT INTO members (user_id, agent, is_refused, added_by, created_at)
        VALUES (:user_id, :agent, :is_refused, :by, :now)
        ON CONFLICT (user_id, agent) DO UPDATE
           SET is_refused = excluded.is_refused, added_by = excluded.added_by, created_at = excluded.created_at
         WHERE is_refused <> excluded.is_refused
        """,
        {"user_id": user_id, "agent": agent, "is_refused": int(is_refused), "by": by, "now": now_ms},
    )
    return conn.changes() == 1


def remove(conn: apsw.Connection, user_id: int, agent: str) -> bool:
    """Make the user neither a member nor refused. False: they were neither."""
    conn.execute(
        "DELETE FROM members WHERE user_id = :user_id AND agent = :agent", {"user_id": user_id, "agent": agent}
    )
    return conn.changes() == 1


def of_agent(conn: apsw.Connection, agent: str) -> list[Member]:
    """The agent's members and refused users, by user id."""
    found = rows(
        conn,
        "SELECT user_id, agent, is_refused, added_by, created_at FROM members WHERE agent = :agent ORDER BY user_id",
        {"agent": agent},
    )
    return list(map(Member.of, found))


def of_user(conn: apsw.Connection, user_id: int) -> list[Member]:
    """The user's memberships and refusals, by agent id."""
    found = rows(
        conn,
        "SELECT user_id, agent, is_refused, added_by, created_at FROM members WHERE user_id = :user_id ORDER BY agent",
        {"user_id": user_id},
    )
    return list(map(Member.of, found))
