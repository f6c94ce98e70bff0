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

LONGEST_RETRY_WAIT_MS = 60 * 60_000  # between two attempts to set up a bot


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
    return names_served(every(conn), platforms)


def names_served(found: list[Account], platforms: tuple[str, ...]) -> list[str]:
    """The same, of these rows. Pure."""
    further = [each for each in found if each.status == "active" and names.is_further(each.name)]
    return [*platforms, *(each.name for each in further if each.platform in platforms)]


def agent_of(conn: apsw.Connection, name: str) -> str | None:
    """The agent whose bot it is, or None."""
    found: str | None = scalar(conn, "SELECT agent FROM accounts WHERE name = :name", {"name": name})
    return found


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
    """Forget the account, with what is known of its channel's troubles. False: there is no such row."""
    conn.execute("DELETE FROM accounts WHERE name = :name", {"name": name})
    if conn.changes() == 0:
        return False
    conn.execute("DELETE FROM channel_pauses WHERE channel = :name", {"name": name})
    conn.execute("DELETE FROM channel_outages WHERE channel = :name", {"name": name})
    conn.execute("DELETE FROM channel_watches WHERE channel = :name", {"name": name})
    return True


def want(conn: apsw.Connection, name: str, *, agent: str, manager: str, owner_id: str, now_ms: int) -> None:
    """The bot of *manager* asks the person *owner_id* to make the agent's own bot, which will be the account *name*.

    Raises:
        WrongState: there is such an account.
    """
    values = {"name": name, "platform": names.platform_of(name), "agent": agent, "manager": manager}
    conn.execute(
        """
        INSERT INTO accounts (name, platform, status, agent, manager, owner_id, created_at, updated_at)
        VALUES (:name, :platform, 'wanted', :agent, :manager, :owner, :now, :now)
        ON CONFLICT (name) DO NOTHING
        """,
        {**values, "owner": owner_id, "now": now_ms},
    )
    if conn.changes() == 0:
        raise WrongState(f"there is an account {name} already; GET /api/accounts lists them")


def give(
    conn: apsw.Connection, manager: str, owner_id: str, *, bot_id: str, username: str | None, now_ms: int
) -> str | None:
    """The person has made a bot: it is the one that was asked for last; the account's name. None: nobody asked for one.

    A bot that another account manages is not taken. Where the bot is known already, its token may have changed: it is
    fetched again.
    """
    of = {"manager": manager, "owner": owner_id, "bot": bot_id, "username": username, "now": now_ms}
    known = rows(
        conn,
        """
        UPDATE accounts
           SET owner_id = :owner, username = ifnull(:username, username), updated_at = :now,
               retry_at = iif(status = 'active' AND updated_at < :now - 60000, :now, retry_at)
         WHERE manager = :manager AND bot_id = :bot
        RETURNING name
        """,
        of,
    )
    if known:
        return str(known[0][0])
    given = rows(
        conn,
        """
        UPDATE accounts
           SET status = 'given', bot_id = :bot, username = :username, retry_at = :now, updated_at = :now
         WHERE status = 'wanted'
           AND NOT EXISTS (SELECT 1 FROM accounts a WHERE a.platform = accounts.platform AND a.bot_id = :bot)
           AND name = (SELECT name
                         FROM accounts
                        WHERE manager = :manager AND owner_id = :owner AND status = 'wanted'
                        ORDER BY created_at DESC, name
                        LIMIT 1)
        RETURNING name
        """,
        of,
    )
    return str(given[0][0]) if given else None


def activate(conn: apsw.Connection, name: str, *, username: str | None, now_ms: int) -> bool:
    """Its token is kept and its webhook is registered. False: it was taken away meanwhile, or is set up already."""
    conn.execute(
        """
        UPDATE accounts
           SET status = 'active', username = ifnull(:username, username), failure = NULL, attempts = 0,
               retry_at = NULL, updated_at = :now
         WHERE name = :name AND (status = 'given' OR (status = 'active' AND retry_at IS NOT NULL))
        """,
        {"name": name, "username": username, "now": now_ms},
    )
    return conn.changes() == 1


def postpone(conn: apsw.Connection, name: str, failure: str, *, retry_at: int) -> None:
    """Its set-up failed: try again at *retry_at*."""
    conn.execute(
        """
        UPDATE accounts
           SET failure = :failure, attempts = attempts + 1, retry_at = :retry_at
         WHERE name = :name AND manager IS NOT NULL AND status <> 'wanted'
        """,
        {"name": name, "failure": failure, "retry_at": retry_at},
    )


def refresh(conn: apsw.Connection, name: str, *, now_ms: int) -> None:
    """The platform refuses the token of a bot that another one manages: fetch the token again."""
    conn.execute(
        """
        UPDATE accounts
           SET retry_at = :now
         WHERE name = :name AND manager IS NOT NULL AND status = 'active' AND retry_at IS NULL
        """,
        {"name": name, "now": now_ms},
    )


def waiting(conn: apsw.Connection, name: str) -> int:
    """How many responses are still to be sent through the account."""
    asked = """
        SELECT count(*)
          FROM responses
         WHERE channel = :name AND chat_id IS NOT NULL AND (status = 'pending' OR status = 'delivering')
    """
    count: int = scalar(conn, asked, {"name": name})
    return count
