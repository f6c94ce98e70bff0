"""Permissions: what an agent's own program may do in a chat without another question, until its owner revokes it.

A permission covers one tool and exactly the arguments that its card showed. It holds while the person who granted it
may still decide about the agent.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import apsw

from shared.core import content, ids
from shared.db.engine.connection import rows


class ToolPermission(NamedTuple):
    """A row of ``permissions``. *granted_by*: the user who owns it; None: the operator. *holds*: it is in force."""

    id: int
    permission_id: str
    agent: str
    chat_id: int | None
    tool: str
    arguments: dict[str, Any]
    granted_by: int | None
    granted_name: str
    uses: int
    used_at: int | None
    created_at: int
    holds: bool


_HOLDS = """
    (p.granted_by IS NULL
     OR EXISTS (SELECT 1 FROM user_roles o WHERE o.user_id = p.granted_by AND (o.agent IS NULL OR o.agent = p.agent)))
"""

_COLUMNS = f"""
    p.id, p.permission_id, p.agent, p.chat_id, p.tool, p.arguments, p.granted_by, p.granted_name, p.uses, p.used_at,
    p.created_at, {_HOLDS}
"""

LISTED = f"""
    SELECT {_COLUMNS}
      FROM permissions p
     WHERE p.id < :before AND (:agent IS NULL OR p.agent = :agent)
     ORDER BY p.id DESC
     LIMIT :limit
"""

_PUT = """
    INSERT INTO permissions (permission_id, agent, chat_id, tool, arguments, granted_by, granted_name, created_at)
    VALUES (:permission_id, :agent, :chat_id, :tool, :arguments, :granted_by, :granted_name, :now)
    ON CONFLICT (agent, ifnull(chat_id, 0), tool, arguments) DO UPDATE
       SET granted_by = excluded.granted_by, granted_name = excluded.granted_name
    RETURNING permission_id
"""

USE = f"""
    UPDATE permissions AS p
       SET uses = uses + 1, used_at = :now
     WHERE p.agent = :agent AND ifnull(p.chat_id, 0) = ifnull(:chat_id, 0) AND p.tool = :tool
       AND p.arguments = :arguments AND {_HOLDS}
    RETURNING permission_id
"""


def canonical(arguments: Mapping[str, Any]) -> str:
    """The arguments as text: two that mean the same are the same text."""
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False)


def put(
    conn: apsw.Connection,
    *,
    agent: str,
    chat_id: int | None,
    tool: str,
    arguments: Mapping[str, Any],
    granted_by: int | None,
    granted_name: str,
    now_ms: int,
) -> str:
    """Keep a permission, or give the one that is there to another owner; its id."""
    given = {
        "permission_id": ids.new("permission"),
        "agent": agent,
        "chat_id": chat_id,
        "tool": tool,
        "arguments": canonical(arguments),
        "granted_by": granted_by,
        "granted_name": granted_name,
        "now": now_ms,
    }
    [(permission_id,)] = rows(conn, _PUT, given)
    return str(permission_id)


def use(
    conn: apsw.Connection, *, agent: str, chat_id: int | None, tool: str, arguments: Mapping[str, Any], now_ms: int
) -> str | None:
    """Count one use of the permission that covers this; its id, or None: nothing in force covers it."""
    given = {"agent": agent, "chat_id": chat_id, "tool": tool, "arguments": canonical(arguments), "now": now_ms}
    found = rows(conn, USE, given)
    return str(found[0][0]) if found else None


def listed(conn: apsw.Connection, *, agent: str | None, before: int, limit: int) -> list[ToolPermission]:
    """The permissions, newest first; of *agent* where it is given."""
    return [_permission(row) for row in rows(conn, LISTED, {"agent": agent, "before": before, "limit": limit})]


def revoke(conn: apsw.Connection, permission_id: str) -> bool:
    """End the permission; False: there is none."""
    conn.execute("DELETE FROM permissions WHERE permission_id = :id", {"id": permission_id})
    return conn.changes() == 1


def _permission(row: tuple[Any, ...]) -> ToolPermission:
    values = dict(zip(ToolPermission._fields, row, strict=True))
    return ToolPermission(
        **{**values, "arguments": content.readable(values["arguments"]), "holds": bool(values["holds"])}
    )
