"""People: what each of them is here, and how that is changed. The identity is (channel, sender id)."""

import json

import apsw

from shared.access import STRANGER, Standing
from shared.db.connection import rows

STANDING = """
    SELECT u.id,
           (SELECT json_group_array(json_array(r.role, r.agent)) FROM user_roles r WHERE r.user_id = u.id),
           (SELECT json_group_array(json_array(m.agent, m.is_refused)) FROM members m WHERE m.user_id = u.id)
      FROM users u
     WHERE u.channel = :channel AND u.sender_id = :sender_id
"""


def standing(conn: apsw.Connection, channel: str, sender_id: str | None) -> Standing:
    """What the sender is here; a stranger where nobody has heard of them, or the platform does not say who it was."""
    found = rows(conn, STANDING, {"channel": channel, "sender_id": sender_id}) if sender_id is not None else []
    if not found:
        return STRANGER
    user_id, roles, members = found[0][0], json.loads(found[0][1]), json.loads(found[0][2])
    return Standing(
        user_id,
        is_owner=["owner", None] in roles,
        is_admin=["admin", None] in roles,
        admin_of=frozenset(agent for role, agent in roles if role == "admin" and agent is not None),
        member_of=frozenset(agent for agent, is_refused in members if not is_refused),
        refused_by=frozenset(agent for agent, is_refused in members if is_refused),
    )
