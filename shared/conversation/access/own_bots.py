"""An agent's own bot, which a person makes with one tap and another bot of ours manages.

::

    ask ──> a message with a button ──tap──> made (the platform's event) ──> deliver sets it up ──> ready

The person is an approver who has a direct chat with the managing bot. A bot that nobody was asked for is not taken.
"""

import re

import apsw

from shared.channels import registry
from shared.conversation.access import people
from shared.core import accounts as names
from shared.core import chance
from shared.core.errors import ConfigInvalid, WrongState
from shared.db.access.users import User
from shared.db.roster import accounts, chats
from shared.db.roster.accounts import Account
from shared.db.roster.agents import Agent
from shared.db.roster.chats import Chat
from shared.queue import notices
from shared.roster.wirings import connect

_LONGEST_WORD = 16
_FIRST_MS = 5_000


def check(conn: apsw.Connection, manager: str) -> None:
    """Whether the bot of the account *manager* can ask somebody to make another one.

    Raises:
        ConfigInvalid: there is no such account, or its platform has no bots that others manage.
        WrongState: no approver has a direct chat with it.
    """
    if not registry.is_adapted(manager) or not accounts.is_there(conn, manager):
        raise ConfigInvalid(f"there is no account {manager!r} whose bot could make another one")
    if not registry.traits(manager).manages_bots:
        raise ConfigInvalid(f"bots of {names.platform_of(manager)} can't make others: add an account by hand")
    _person(conn, manager)


def ask(conn: apsw.Connection, manager: str, agent: Agent, *, now_ms: int) -> str:
    """Ask an approver to make the agent's own bot; a sentence about it. Raises as ``check``."""
    check(conn, manager)
    user, chat = _person(conn, manager)
    word = _free_word(conn, manager, agent.id)
    name = names.name_of(names.platform_of(manager), word)
    accounts.want(conn, name, agent=agent.id, manager=manager, owner_id=user.sender_id, now_ms=now_ms)
    request = [1 + chance.below(2**31 - 1), agent.name, f"{word}_{chance.token_hex(2)}_bot"]
    text = (
        f"{agent.name} is to have a bot of its own. Tap the button below and confirm the name: everything else follows "
        "by itself. Without a tap nothing happens."
    )
    notices.write(conn, chat, text, {"bot_request": request}, now_ms=now_ms)
    return f"{user.display_name} is asked to make its bot, {name}, with one tap."


def record(conn: apsw.Connection, manager: str, owner_id: str, bot_id: str, username: str, *, now_ms: int) -> bool:
    """A person made a bot, or changed one. False: nobody asked this person for one."""
    name = accounts.give(conn, manager, owner_id, bot_id=bot_id, username=username or None, now_ms=now_ms)
    return name is not None


def activate(conn: apsw.Connection, account: Account, *, username: str | None, now_ms: int) -> None:
    """The bot is set up: its agent answers its owner there, and the owner is told where. Nothing is done twice."""
    if not accounts.activate(conn, account.name, username=username, now_ms=now_ms) or account.status == "active":
        return
    owner = account.owner_id or ""
    if account.agent is not None:
        chat = chats.ensure(conn, account.name, owner, is_group=False, now_ms=now_ms)
        connect(conn, chat.id, account.agent, now_ms=now_ms)
    told = chats.find(conn, account.manager or "", owner)
    if told is not None:
        address = f"https://t.me/{username}" if username else "its chat"
        notices.write(conn, told, f"Your bot is ready. Open {address} and press Start.", now_ms=now_ms)


def postpone(conn: apsw.Connection, account: Account, reason: str, *, now_ms: int) -> None:
    """The bot could not be set up: try again, after pauses that grow to an hour."""
    wait_ms = min(accounts.LONGEST_RETRY_WAIT_MS, _FIRST_MS * 2 ** min(account.attempts, 20))
    accounts.postpone(conn, account.name, reason, retry_at=now_ms + wait_ms)


def _person(conn: apsw.Connection, manager: str) -> tuple[User, Chat]:
    """The first approver who can be written to by the bot of *manager*, and the direct chat."""
    platform = names.platform_of(manager)
    for user in people.approvers(conn, None, channel=manager):
        chat = chats.find(conn, manager, user.sender_id) if user.channel == platform else None
        if chat is not None and chat.status == "active" and not chat.is_group:
            return user, chat
    raise WrongState(f"no owner or admin has a direct chat with the bot of {manager}: one of them writes to it first")


def _free_word(conn: apsw.Connection, manager: str, agent: str) -> str:
    """A word for the account that no other account of the platform has."""
    platform = names.platform_of(manager)
    plain = re.sub(r"[^a-z0-9]+", "_", agent.lower()).strip("_")[:_LONGEST_WORD].strip("_")
    start = plain if plain[:1].isalpha() and plain != platform else f"agent_{plain}".rstrip("_")
    taken = {each.name for each in accounts.every(conn)}
    words = (start if number == 1 else f"{start}{number}" for number in range(1, len(taken) + 3))
    return next(word for word in words if f"{platform}.{word}" not in taken)
