"""Users: who is somebody here, and what they may do. The identity is the channel and the platform's id of the sender.

Whoever calls the API is the operator, who may give and take everything.
"""

from collections.abc import Callable
from typing import Literal

import apsw
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from shared.access import people, requests
from shared.core import clock
from shared.core.errors import NotFound
from shared.core.policy import AccessPolicy
from shared.db.access import users
from shared.db.views import access
from shared.db.views.access import UserView
from shared.inbound import decisions
from shared.rest.http.common import OK, Ok, PageQuery
from shared.rest.http.endpoint import Body, Query, endpoint
from shared.rest.http.service import Service
from shared.rest.resources.messages import ChannelName

_BY = "operator"
_AT_ONCE = 250  # cards: as many as a sweep shows
_UNKNOWN = {404: "there is no such user"}
_UNKNOWN_OR_AGENT = {404: "there is no such user, or no such agent"}


class SavedUser(TypedDict):
    """The user as they are now."""

    ok: Literal[True]
    user: UserView


class UsersQuery(PageQuery):
    """Of which channel, under which id, and somebody to which agent; of those before a row, the newest."""

    channel: str | None = Field(default=None, max_length=32)
    senderId: str | None = Field(default=None, max_length=200)
    agent: str | None = Field(default=None, max_length=64)


class RoleQuery(Query):
    """Of which agent; without one, of everything, so that a name that is mistyped is refused."""

    model_config = ConfigDict(extra="forbid")

    agent: str | None = Field(default=None, min_length=1, max_length=64)


class ForceQuery(Query):
    """Whether the last owner may go."""

    force: bool = False


class RoleRemovalQuery(RoleQuery, ForceQuery):
    """Of which agent, or of everything; whether the last owner may go."""

    model_config = ConfigDict(extra="forbid")


class NewUserBody(Body):
    """Who it is; *senderId* is what the platform calls them, as ``/api/dropped`` and messages show it."""

    model_config = ConfigDict(extra="forbid")

    channel: ChannelName
    senderId: str = Field(min_length=1, max_length=200)
    name: str = Field(default="", max_length=200)


class MembershipBody(Body):
    """Whether they may talk to the agent, or are refused without anybody being asked again."""

    model_config = ConfigDict(extra="forbid")

    isRefused: bool = False


def _user(conn: apsw.Connection, user_id: int) -> UserView:
    found = access.user(conn, user_id)
    if found is None:
        raise NotFound(f"there is no user {user_id}; GET /api/users lists them")
    return found


@endpoint("GET", "/api/users")
async def get_users(service: Service, *, query: UsersQuery) -> list[UserView]:
    """Who is somebody here, newest first."""
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
    """Know somebody, who may nothing yet; one who is known stays as they are, but for a new name."""

    def work(conn: apsw.Connection) -> UserView:
        made = users.ensure(conn, body.channel, body.senderId, name=body.name, now_ms=clock.now_ms())
        return _user(conn, made.id)

    return {"ok": True, "user": await service.change(work)}


@endpoint("GET", "/api/users/{id}", _UNKNOWN)
async def get_user(service: Service, *, id: int) -> UserView:
    """One user."""
    return _user(service.reader, id)


@endpoint(
    "DELETE",
    "/api/users/{id}",
    {**_UNKNOWN, 409: "somebody is asked about them: decide that first; or they are the last owner"},
)
async def delete_user(service: Service, *, id: int, query: ForceQuery) -> Ok:
    """Forget them, with all that they may do: a stranger again. The last owner only with ``force``."""
    await service.change(lambda conn: people.forget(conn, id, may_be_last_owner=query.force))
    return OK


@endpoint(
    "PUT", "/api/users/{id}/roles/{role}", {**_UNKNOWN_OR_AGENT, 400: "nobody can be that; the sentence says why"}
)
async def put_role(service: Service, *, id: int, role: str, query: RoleQuery) -> SavedUser:
    """Make them an owner, or an admin. They are shown what waited for somebody who may decide it."""

    def work(conn: apsw.Connection) -> None:
        people.grant(conn, id, role, query.agent, by=_BY, now_ms=clock.now_ms())

    return await _change(service, id, work)


@endpoint(
    "DELETE",
    "/api/users/{id}/roles/{role}",
    {404: "there is no such user, or they are not that", 409: "they are the last owner"},
)
async def delete_role(service: Service, *, id: int, role: str, query: RoleRemovalQuery) -> SavedUser:
    """Take exactly this role away. That of the last owner only with ``force``."""

    def work(conn: apsw.Connection) -> None:
        if not people.revoke(conn, id, role, query.agent, may_be_last_owner=query.force):
            of = f"of {query.agent}" if query.agent else "of everything"
            raise NotFound(f"user {id} is no {role} {of}")

    return await _change(service, id, work)


@endpoint("PUT", "/api/users/{id}/members/{agent}", _UNKNOWN_OR_AGENT)
async def put_membership(service: Service, *, id: int, agent: str, body: MembershipBody) -> SavedUser:
    """Let them talk to the agent, or refuse them. What they wrote meanwhile and was held follows it."""
    verb = people.refuse if body.isRefused else people.add_member

    def work(conn: apsw.Connection) -> None:
        verb(conn, id, agent, by=_BY, now_ms=clock.now_ms())

    return await _change(service, id, work)


@endpoint("DELETE", "/api/users/{id}/members/{agent}", {404: "there is no such user, or the agent knows nothing of it"})
async def delete_membership(service: Service, *, id: int, agent: str) -> SavedUser:
    """The agent knows them no more, and does not refuse them either."""

    def work(conn: apsw.Connection) -> None:
        if not people.remove(conn, id, agent):
            raise NotFound(f"user {id} is neither a member of {agent} nor refused by it")

    return await _change(service, id, work)


async def _change(service: Service, user_id: int, work: Callable[[apsw.Connection], None]) -> SavedUser:
    """Do *work*, and what waited for that."""
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
