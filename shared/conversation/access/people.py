"""People: their standing, the approvers among them, and the chats that reach them.

REST, CLI, approvals and pairing change these rows here and nowhere else. The identity is (channel, sender id). *by* is
the display name of the person or program that makes the change.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple, get_args

import apsw

from shared.channels import registry
from shared.conversation.access.rules import STRANGER, Standing
from shared.core import page_links
from shared.core.accounts import platform_of
from shared.core.content import ResponseContent
from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.core.page_links import Page
from shared.db.access import approvals, members, user_dms, user_roles, users
from shared.db.access.user_roles import RoleName
from shared.db.access.users import User
from shared.db.engine.connection import rows
from shared.db.roster import accounts, agents, chats
from shared.queue import forgetting, notices

ROLES: tuple[str, ...] = get_args(RoleName)

STANDING = """
    SELECT u.id,
           (SELECT json_group_array(json_array(r.role, r.agent)) FROM user_roles r WHERE r.user_id = u.id),
           (SELECT json_group_array(json_array(m.agent, m.is_refused)) FROM members m WHERE m.user_id = u.id)
      FROM users u
     WHERE u.channel = :channel AND u.sender_id = :sender_id
"""


def standing(conn: apsw.Connection, channel: str, sender_id: str | None) -> Standing:
    """The sender's standing; a stranger's where the sender is unknown, or the platform names no sender."""
    found = rows(conn, STANDING, (platform_of(channel), sender_id))  # no sender_id equals NULL
    if not found:
        return STRANGER
    user_id, roles, memberships = found[0][0], json.loads(found[0][1]), json.loads(found[0][2])
    return Standing(
        user_id,
        is_owner=["owner", None] in roles,
        is_admin=["admin", None] in roles,
        admin_of=frozenset(agent for role, agent in roles if role == "admin" and agent is not None),
        member_of=frozenset(agent for agent, is_refused in memberships if not is_refused),
        refused_by=frozenset(agent for agent, is_refused in memberships if is_refused),
    )


def grant(conn: apsw.Connection, user_id: int, role: str, agent: str | None, *, by: str, now_ms: int) -> bool:
    """Make the user an owner, or an admin of *agent*; without an agent, of everything. False: they had that role.

    Agents that refused the user refuse them no more, where the role lets the user talk to them.

    Raises:
        NotFound: there is no such user or agent.
        ConfigInvalid: there is no such role, or it would be an owner of one agent.
    """
    _check_role(role, agent)
    _check(conn, user_id, agent)
    members.forgive(conn, user_id, agent)
    return user_roles.grant(conn, user_id, role, agent, by=by, now_ms=now_ms)


def revoke(
    conn: apsw.Connection, user_id: int, role: str, agent: str | None, *, may_be_last_owner: bool = False
) -> bool:
    """Take the role away. False: they did not have exactly this one.

    Raises:
        NotFound: there is no such user.
        ConfigInvalid: there is no such role.
        WrongState: no owner would be left.
    """
    _check_role(role, agent)
    _check(conn, user_id, None)
    is_revoked = user_roles.revoke(conn, user_id, role, agent, may_be_last_owner=may_be_last_owner)
    if role == "owner" and not is_revoked:
        _check_another_owner(conn, user_id)
    return is_revoked


def forget(conn: apsw.Connection, user_id: int, *, may_be_last_owner: bool = False, now_ms: int) -> None:
    """Delete the user with roles and memberships, and what agents keep of them: they are a stranger again.

    Raises:
        NotFound: there is no such user.
        WrongState: an approval about them is pending, or no owner would be left.
    """
    user = _check(conn, user_id, None)
    if pending := approvals.pending_of_user(conn, user_id):
        raise WrongState(f"{pending[0].approval_id} asks about user {user_id}: decide that first")
    if not may_be_last_owner:
        _check_another_owner(conn, user_id)
    every_agent = [each.id for each in agents.every_with_retired(conn)]
    forgetting.forget(conn, every_agent, user.channel, user.sender_id, now_ms=now_ms)
    users.delete(conn, user_id)


def _check_another_owner(conn: apsw.Connection, user_id: int) -> None:
    if user_roles.owners(conn) == [user_id]:
        raise WrongState(
            f"user {user_id} is the last owner, and without an owner no button can decide about new chats: make "
            "another user an owner first, or add ?force=true if you mean it"
        )


def add_member(conn: apsw.Connection, user_id: int, agent: str, *, by: str, now_ms: int) -> bool:
    """Make the user a member of the agent, also one whom it refused before. False: they were a member.

    Raises:
        NotFound: there is no such user or agent.
    """
    _check(conn, user_id, agent)
    return members.put(conn, user_id, agent, is_refused=False, by=by, now_ms=now_ms)


def refuse(conn: apsw.Connection, user_id: int, agent: str, *, by: str, now_ms: int) -> bool:
    """Refuse the user: they may not talk to the agent, and no approver is asked again. False: they were refused.

    Raises:
        NotFound: there is no such user or agent.
        WrongState: a role lets the user talk to the agent all the same; the message says which.
    """
    user = _check(conn, user_id, agent)
    roles = _roles_over(standing(conn, user.channel, user.sender_id), agent)
    if roles:
        raise WrongState(
            f"user {user_id} is {' and '.join(roles)}, who may talk to agent {agent}, so a refusal would change "
            "nothing: take that role away first (DELETE /api/users/{id}/roles/{role})"
        )
    return members.put(conn, user_id, agent, is_refused=True, by=by, now_ms=now_ms)


def _roles_over(of: Standing, agent: str) -> list[str]:
    """The roles, in words, by which the user may talk to the agent whatever members and refusals say."""
    roles = {
        "an owner": of.is_owner,
        "an admin of everything": of.is_admin,
        f"an admin of {agent}": agent in of.admin_of,
    }
    return [words for words, has in roles.items() if has]


def remove(conn: apsw.Connection, user_id: int, agent: str) -> bool:
    """Make the user neither a member of the agent nor refused by it. False: they were neither.

    Raises:
        NotFound: there is no such user.
    """
    _check(conn, user_id, None)
    return members.remove(conn, user_id, agent)


def _check_role(role: str, agent: str | None) -> None:
    if role not in ROLES:
        raise ConfigInvalid(f"role {role!r} is none of {', '.join(ROLES)}")
    if role == "owner" and agent is not None:
        raise ConfigInvalid(f"an owner owns everything, not agent {agent!r} alone: make them an admin of that agent")


def _check(conn: apsw.Connection, user_id: int, agent: str | None) -> User:
    user = users.get(conn, user_id)
    if user is None:
        raise NotFound(f"there is no user {user_id}; GET /api/users lists them")
    if agent is not None and agents.get(conn, agent) is None:
        raise NotFound(f"there is no agent {agent!r}")
    return user


APPROVERS = """
    SELECT u.id, u.channel, u.sender_id, u.name
      FROM user_roles r
      JOIN users u ON u.id = r.user_id
     WHERE r.agent IS NULL OR r.agent = :agent
     GROUP BY u.id
     ORDER BY u.channel <> :channel,
              min(CASE WHEN r.agent IS NOT NULL THEN 0 WHEN r.role = 'admin' THEN 1 ELSE 2 END),
              min(r.created_at), u.id
"""


def approvers(conn: apsw.Connection, agent: str | None, *, channel: str) -> list[User]:
    """The users who may decide, each once: those on *channel* first, then by their role.

    Admins of *agent* come before admins of everything, and those before owners; of equals the first to get the role.
    Without an agent, only admins of everything and owners may decide.
    """
    return list(map(User._make, rows(conn, APPROVERS, {"agent": agent, "channel": platform_of(channel)})))


def direct_chat(conn: apsw.Connection, user: User, *, now_ms: int) -> int | None:
    """The user's direct chat; None if there can be none, or the user blocked the bot.

    Where the platform does not name the chat after the user, and the user never wrote there, ``deliver`` opens it
    before it sends the first response.
    """
    known = user_dms.get(conn, user.id)
    chat = chats.get(conn, known) if known is not None else None
    if chat is None or chat.status != "active":
        chat = _elsewhere(conn, user) or (_direct_chat(conn, user, now_ms=now_ms) if known is None else None)
    if chat is None or chat.status != "active" or chat.is_group:  # a sender can be a group, and everybody in it reads
        return None
    user_dms.put(conn, user.id, chat.id, now_ms)
    return chat.id


class Told(NamedTuple):
    """Who was told, in which chat, and the row of the response."""

    user: User
    chat_id: int
    response: int


def tell_first(
    conn: apsw.Connection,
    users: Iterable[User],
    text: str,
    carried: ResponseContent | None = None,
    *,
    page: tuple[Page, str | int | None],
    but_chat: int | None = None,
    but_channel: str | None = None,
    now_ms: int,
) -> Told | None:
    """Tell the first of the users whom a direct chat reaches; None: nobody was told.

    Args:
        text: Markdown.
        page: of the operator's page, and the id there.
        but_chat, but_channel: no place for this news.
    """
    for user in users:
        chat_id = direct_chat(conn, user, now_ms=now_ms)
        chat = chats.get(conn, chat_id) if chat_id is not None else None
        if chat is not None and chat.id != but_chat and chat.channel != but_channel:
            address = page_links.here(*page)
            said = f"{text}\n<{address}>" if address else text
            return Told(user, chat.id, notices.write(conn, chat, said, carried, now_ms=now_ms))
    return None


def _elsewhere(conn: apsw.Connection, user: User) -> chats.Chat | None:
    """The direct chat of a platform that names it after the person, with any account whose bot the person wrote to."""
    if not registry.traits(user.channel).direct_by_sender:
        return None
    names = [name for name in accounts.served(conn, registry.PLATFORMS) if platform_of(name) == user.channel]
    found = (chats.find(conn, name, user.sender_id) for name in names)
    return next((chat for chat in found if chat is not None and chat.status == "active"), None)


def _direct_chat(conn: apsw.Connection, user: User, *, now_ms: int) -> chats.Chat | None:
    if not registry.is_adapted(user.channel):
        return None
    if registry.traits(user.channel).direct_by_sender:
        return chats.ensure(conn, user.channel, user.sender_id, is_group=False, name=user.name or None, now_ms=now_ms)
    made = chats.ensure(
        conn,
        user.channel,
        f"user/{user.sender_id}",
        is_group=False,
        name=user.name or None,
        opens_for=user.sender_id,
        now_ms=now_ms,
    )
    return made if made.opens_for is not None else chats.reopen(conn, made, user.sender_id, now_ms=now_ms)


def last_owner_in(conn: apsw.Connection, chat: chats.Chat) -> int | None:
    """The last owner's id, if this is their direct chat; None if it is not, or there is another owner."""
    owners = user_roles.owners(conn)
    user = users.get(conn, owners[0]) if len(owners) == 1 and not chat.is_group else None
    if user is None:
        return None
    known = user_dms.get(conn, user.id)
    is_named_so = (user.channel, user.sender_id) == (platform_of(chat.channel), chat.platform_id)
    return user.id if known == chat.id or (known is None and is_named_so) else None


def remember_direct_chat(conn: apsw.Connection, user_id: int, chat_id: int, now_ms: int) -> None:
    """Reach the user in this direct chat from now on; responses that wait in a provisional one move here."""
    before = user_dms.get(conn, user_id)
    if before == chat_id:
        return
    known, seen = chats.get(conn, before) if before is not None else None, chats.get(conn, chat_id)
    if known is not None and seen is not None and known.opens_for is not None:
        chats.move(conn, seen.channel, known.platform_id, seen.platform_id, now_ms=now_ms)
    user_dms.put(conn, user_id, chat_id, now_ms)
