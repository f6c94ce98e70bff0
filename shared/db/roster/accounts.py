"""Accounts: the bots and apps of the platforms. The first account of a platform may have no row.

::

    (no row) ──add──> active
    (no row) ──want──> wanted ──give──> given ──activate──> active      a bot that a person makes for an agent

Tokens are in the environment, or in a file beside the database (``shared.channels.account_settings``).
"""

from typing import NamedTuple

import apsw

from shared.core import accounts as names
from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows, scalar


class Account(NamedTuple):
    """A row of ``accounts``.

    Attributes:
        status: ``active``, ``wanted`` (a person was asked to make the bot) or ``given`` (its token is to be fetched).
        agent: the agent whose bot it is; None: it is for all agents.
        manager: the account whose bot made this one; None: an operator gave it.
        owner_id: the platform's id of the person who makes or made it, where there is a manager.
        failure: why the last attempt to set it up failed, for people; None: none did.
        retry_at: when the next attempt is due, ms UTC, or None.
    """

    name: str
    platform: str
    status: str
    bot_id: str | None
    username: str | None
    agent: str | None
    manager: str | None
    owner_id: str | None
    failure: str | None
    attempts: int
    retry_at: int | None
    created_at: int


_SELECT = """
    SELECT name, platform, status, bot_id, username, agent, manager, owner_id, failure, attempts, retry_at, created_at
      FROM accounts
"""


def get(conn: apsw.Connection, name: str) -> Account | None:
    """The account's row, or None."""
    found = rows(conn, _SELECT + " WHERE name = :name", {"name": name})
    return Account(*found[0]) if found else None


def every(conn: apsw.Connection) -> list[Account]:
    """All rows, by name."""
    return list(map(Account._make, rows(conn, _SELECT + " ORDER BY name")))


def is_there(conn: apsw.Connection, name: str) -> bool:
    """Whether webhooks of the account are taken: a further account needs a row that is active."""
    if not names.is_further(name):
        return True
    asked = "SELECT EXISTS (SELECT 1 FROM accounts WHERE name = :name AND status = 'active')"
    return bool(scalar(conn, asked, {"name": name}))


def served(conn: apsw.Connection, platforms: tuple[str, ...]) -> list[str]:
    """The names of the accounts to send for: the first of each platform, and the active further ones."""
    further = rows(conn, "SELECT name FROM accounts WHERE status = 'active' AND name <> platform ORDER BY name")
    return [*platforms, *(name for (name,) in further if names.platform_of(name) in platforms)]


def agent_of(conn: apsw.Connection, name: str) -> str | None:
    """The agent whose bot it is, or None."""
    found: str | None = scalar(conn, "SELECT agent FROM accounts WHERE name = :name", {"name": name})
    return found


def of_agent(conn: apsw.Connection, agent: str) -> list[Account]:
    """The accounts that are the agent's own, by name."""
    return list(map(Account._make, rows(conn, _SELECT + " WHERE agent = :agent ORDER BY name", {"agent": agent})))


def add(conn: apsw.Connection, name: str, *, agent: str | None = None, now_ms: int) -> Account:
    """Add an account that an operator gives.

    Raises:
        WrongState: there is such an account.
    """
    found = rows(
        conn,
        """
        INSERT INTO accounts (name, platform, agent, created_at, updated_at)
        VALUES (:name, :platform, :agent, :now, :now)
        ON CONFLICT (name) DO NOTHING
        RETURNING name
        """,
        {"name": name, "platform": names.platform_of(name), "agent": agent, "now": now_ms},
    )
    if not found:
        raise WrongState(f"there is an account {name} already; GET /api/accounts lists them")
    return known(conn, name)


def known(conn: apsw.Connection, name: str) -> Account:
    """The account's row.

    Raises:
        NotFound: there is none.
    """
    found = get(conn, name)
    if found is None:
        raise NotFound(f"there is no account {name!r}; GET /api/accounts lists them")
    return found


def set_agent(conn: apsw.Connection, name: str, agent: str | None, *, now_ms: int) -> None:
    """Make the account the agent's own bot; None: for all agents. The first account of a platform gets its row."""
    conn.execute(
        """
        INSERT INTO accounts (name, platform, agent, created_at, updated_at)
        VALUES (:name, :platform, :agent, :now, :now)
        ON CONFLICT (name) DO UPDATE SET agent = excluded.agent, updated_at = excluded.updated_at
        """,
        {"name": name, "platform": names.platform_of(name), "agent": agent, "now": now_ms},
    )


def remove(conn: apsw.Connection, name: str) -> bool:
    """Forget the account. False: there is no such row."""
    conn.execute("DELETE FROM accounts WHERE name = :name", {"name": name})
    return conn.changes() == 1


def waiting(conn: apsw.Connection, name: str) -> int:
    """How many responses are still to be sent through the account."""
    asked = """
        SELECT count(*)
          FROM responses
         WHERE channel = :name AND chat_id IS NOT NULL AND (status = 'pending' OR status = 'delivering')
    """
    count: int = scalar(conn, asked, {"name": name})
    return count
