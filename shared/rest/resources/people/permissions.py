"""Permissions: what an agent's own program may do in a chat without another question."""

from typing import Any

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.core.errors import NotFound
from shared.db.access import permissions
from shared.db.access.permissions import ToolPermission
from shared.rest.http.common import OK, Ok, PageQuery
from shared.rest.http.endpoint import endpoint
from shared.rest.http.service import Service


class PermissionView(TypedDict):
    """A permission. *arguments*: what it covers; *chatId*: where, null for messages without a chat; *grantedBy*: the
    user who owns it, null for the operator; *holds*: false while that user may not decide about the agent.
    """

    id: int
    permissionId: str
    agent: str
    chatId: int | None
    tool: str
    arguments: dict[str, Any]
    grantedBy: int | None
    grantedName: str
    uses: int
    usedAt: int | None
    createdAt: int
    holds: bool


class PermissionsQuery(PageQuery):
    """*agent*: only of this one. *before*: only rows with a lower id."""

    agent: str | None = Field(default=None, max_length=64)


def _view(of: ToolPermission) -> PermissionView:
    return {
        "id": of.id,
        "permissionId": of.permission_id,
        "agent": of.agent,
        "chatId": of.chat_id,
        "tool": of.tool,
        "arguments": of.arguments,
        "grantedBy": of.granted_by,
        "grantedName": of.granted_name,
        "uses": of.uses,
        "usedAt": of.used_at,
        "createdAt": of.created_at,
        "holds": of.holds,
    }


@endpoint("GET", "/api/permissions")
async def get_permissions(service: Service, *, query: PermissionsQuery) -> list[PermissionView]:
    """List what agents' programs may do without another question, newest first."""
    found = permissions.listed(service.reader, agent=query.agent, before=query.before, limit=query.limit)
    return [_view(each) for each in found]


@endpoint("DELETE", "/api/permissions/{id}", {404: "there is no such permission"})
async def delete_permission(service: Service, *, id: str) -> Ok:
    """Revoke a permission. From then on its agent's program asks again."""

    def work(conn: apsw.Connection) -> None:
        if not permissions.revoke(conn, id):
            raise NotFound(f"no permission {id!r}; GET /api/permissions lists them")

    await service.change(work)
    return OK


ENDPOINTS = (get_permissions, delete_permission)
