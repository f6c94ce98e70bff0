"""Users: the known people and programs, and what they may do.

A user is identified by the channel and the platform's id of the sender. A caller of the API is the operator, who may
give and take every right.
"""

from collections.abc import Callable
from typing import Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.conversation.access import people, requests
from shared.conversation.inbound import decisions
from shared.core.errors import NotFound
from shared.core.policy import AccessPolicy
from shared.core.time import clock
from shared.db.access import users
from shared.db.views import access
from shared.db.views.access import UserView
from shared.rest.http.common import OK, Ok, PageQuery
from shared.rest.http.endpoint import Body, Query, endpoint
from shared.rest.http.service import Service
from shared.rest.resources.messages import ChannelName

_BY = "operator"
_AT_ONCE = 250  # cards, as many as one sweep sends
_UNKNOWN = {404: "there is no such user"}
_UNKNOWN_OR_AGENT = {404: "there is no such user, or no such agent"}


class SavedUser(TypedDict):
    """The user after the change."""

    ok: Literal[True]
    user: UserView


class UsersQuery(PageQuery):
    """*agent*: only users with a role or a membership for it. *before*: only rows with a lower id."""

    channel: str | None = Field(default=None, max_length=32)
    senderId: str | None = Field(default=None, max_length=200)
    agent: str | None = Field(default=None, max_length=64)


class RoleQuery(Query):
    """*agent*: the role is for this agent; without it, for everything. Unknown names are refused: they are typos."""

    agent: str | None = Field(default=None, min_length=1, max_length=64)


class ForceQuery(Query):
    """*force*: allowed also for the last owner."""

    force: bool = False


class RoleRemovalQuery(RoleQuery, ForceQuery):
    """*agent*: the role for this agent; without it, the role for everything. *force*: also the last owner's."""


class NewUserBody(Body):
    """*senderId*: the platform's id of the user, as ``/api/dropped`` and messages show it."""

    channel: ChannelName
    senderId: str = Field(min_length=1, max_length=200)
    name: str = Field(default="", max_length=200)


class MembershipBody(Body):
    """*isRefused*: the user's messages to the agent are dropped, and no approver is asked again."""

    isRefused: bool = False


def _user(conn: apsw.Connection, user_id: int) -> UserView:
    found = access.user(conn, user_id)
    if found is None:
        raise NotFound(f"there is no user {user_id}; GET /api/users lists them")
    return found


@endpoint("GET", "/api/users")
async def get_users(service: Service, *, query: UsersQuery) -> list[UserView]:
    """List the known users, newest first."""
    return access.users(
        service.reader,
        channel=query.channel,
        sender_id=query.senderId,
        agent=query.agent,
        before=query.before,
        limit=query.limit,
    )


@endpoint("POST", "/api/users")
async def post_user(service: Service, *, body: NewUserBody) -> SavedUser:
    """Add a user without a role. A user who is known already stays as is; a new name replaces the old one."""

    def work(conn: apsw.Connection) -> UserView:
        made = users.ensure(conn, body.channel, body.senderId, name=body.name, now_ms=clock.now_ms())
        return _user(conn, made.id)

    return {"ok": True, "user": await service.change(work)}


@endpoint("GET", "/api/users/{id}", _UNKNOWN)
async def get_user(service: Service, *, id: int) -> UserView:
    """Read one user."""
    return _user(service.reader, id)


@endpoint(
    "DELETE",
    "/api/users/{id}",
    {**_UNKNOWN, 409: "an approval about the user is pending: decide it first; or the user is the last owner"},
)
async def delete_user(service: Service, *, id: int, query: ForceQuery) -> Ok:
    """Delete a user with all roles; from then on the user is a stranger. The last owner needs ``force``."""
    await service.change(lambda conn: people.forget(conn, id, may_be_last_owner=query.force, now_ms=clock.now_ms()))
    return OK


@endpoint(
    "PUT",
    "/api/users/{id}/roles/{role}",
    {**_UNKNOWN_OR_AGENT, 400: "there is no such role, or it can't be for one agent; the error says which"},
)
async def put_role(service: Service, *, id: int, role: str, query: RoleQuery) -> SavedUser:
    """Give a user the role of owner or admin. The user then gets the cards of approvals that had no approver."""

    def work(conn: apsw.Connection) -> None:
        people.grant(conn, id, role, query.agent, by=_BY, now_ms=clock.now_ms())

    return await _change(service, id, work)


@endpoint(
    "DELETE",
    "/api/users/{id}/roles/{role}",
    {404: "there is no such user, or the user does not have this role", 409: "the user is the last owner"},
)
async def delete_role(service: Service, *, id: int, role: str, query: RoleRemovalQuery) -> SavedUser:
    """Take this role away, and no other. The role of the last owner needs ``force``."""

    def work(conn: apsw.Connection) -> None:
        if not people.revoke(conn, id, role, query.agent, may_be_last_owner=query.force):
            of = f"of {query.agent}" if query.agent else "of everything"
            raise NotFound(f"user {id} is no {role} {of}")

    return await _change(service, id, work)


@endpoint(
    "PUT",
    "/api/users/{id}/members/{agent}",
    {**_UNKNOWN_OR_AGENT, 409: "a role lets the user talk to the agent, so the user can't be refused"},
)
async def put_membership(service: Service, *, id: int, agent: str, body: MembershipBody) -> SavedUser:
    """Let a user talk to the agent, or refuse the user. Held messages of the user are then delivered or dropped.

    An owner, and an admin of the agent, can't be refused: their roles let them talk to it.
    """
    verb = people.refuse if body.isRefused else people.add_member

    def work(conn: apsw.Connection) -> None:
        verb(conn, id, agent, by=_BY, now_ms=clock.now_ms())

    return await _change(service, id, work)


@endpoint(
    "DELETE",
    "/api/users/{id}/members/{agent}",
    {404: "there is no such user, or the user is neither a member nor refused"},
)
async def delete_membership(service: Service, *, id: int, agent: str) -> SavedUser:
    """Delete a membership or a refusal: to this agent the user is a stranger again."""

    def work(conn: apsw.Connection) -> None:
        if not people.remove(conn, id, agent):
            raise NotFound(f"user {id} is neither a member of {agent} nor refused by it")

    return await _change(service, id, work)


async def _change(service: Service, user_id: int, work: Callable[[apsw.Connection], None]) -> SavedUser:
    """Run *work*, then deliver or drop the held messages, and send the cards, that depended on it."""
    policy = AccessPolicy.of(service.settings)

    def all_of_it(conn: apsw.Connection) -> UserView:
        now_ms = clock.now_ms()
        work(conn)
        decisions.reconsider(conn, user_id, by=_BY, policy=policy, now_ms=now_ms)
        requests.show_pending(conn, limit=_AT_ONCE, now_ms=now_ms)
        return _user(conn, user_id)

    return {"ok": True, "user": await service.change(all_of_it, "dispatch", "deliver")}


ENDPOINTS = (
    *(get_users, post_user, get_user, delete_user),
    *(put_role, delete_role, put_membership, delete_membership),
)
