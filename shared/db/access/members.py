"""Members of agents, and the users whom an approver refused. ``shared.conversation.access.people`` writes them."""

import apsw


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


def forgive(conn: apsw.Connection, user_id: int, agent: str | None) -> None:
    """The agent refuses the user no more; without an agent, no agent does. Memberships stay."""
    conn.execute(
        "DELETE FROM members WHERE user_id = :user_id AND is_refused = 1 AND (:agent IS NULL OR agent = :agent)",
        {"user_id": user_id, "agent": agent},
    )
