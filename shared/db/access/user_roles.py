"""Roles: owners, who may do everything, and admins of one agent or of all.

``shared.conversation.access.people`` grants them.
"""

from typing import Literal

import apsw

from shared.db.engine.connection import rows

RoleName = Literal["owner", "admin"]


def grant(conn: apsw.Connection, user_id: int, role: str, agent: str | None, *, by: str, now_ms: int) -> bool:
    """Grant the role. False: the user had it, and *granted_by* stays."""
    conn.execute(
        """
        INSERT INTO user_roles (user_id, role, agent, granted_by, created_at)
        VALUES (:user_id, :role, :agent, :by, :now)
        ON CONFLICT DO NOTHING
        """,
        {"user_id": user_id, "role": role, "agent": agent, "by": by, "now": now_ms},
    )
    return conn.changes() == 1


def revoke(
    conn: apsw.Connection, user_id: int, role: str, agent: str | None, *, may_be_last_owner: bool = False
) -> bool:
    """Take away exactly this role. False: the user did not have it, or is the last owner."""
    conn.execute(
        """
        DELETE FROM user_roles
         WHERE user_id = :user_id AND role = :role AND ifnull(agent, '') = ifnull(:agent, '')
           AND (role <> 'owner' OR :may_be_last_owner
                OR EXISTS (SELECT 1 FROM user_roles o WHERE o.role = 'owner' AND o.user_id <> :user_id))
        """,
        {"user_id": user_id, "role": role, "agent": agent, "may_be_last_owner": may_be_last_owner},
    )
    return conn.changes() == 1


def owners(conn: apsw.Connection) -> list[int]:
    """The ids of the owners, in the order of their grants."""
    found = rows(conn, "SELECT user_id FROM user_roles WHERE role = 'owner' ORDER BY id")
    return [user_id for (user_id,) in found]
