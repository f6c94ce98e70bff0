"""Accounts as operators change them, and whose bot each one is."""

import apsw

from shared.channels import registry
from shared.core import accounts as names
from shared.core.errors import ConfigInvalid, NotFound
from shared.db.roster import accounts, agents
from shared.db.roster.accounts import Account
from shared.db.roster.agents import Agent


def default_agent(conn: apsw.Connection, account: str) -> Agent | None:
    """The agent for chats of the account that have none yet: the one whose bot it is, else the default agent."""
    own = accounts.agent_of(conn, account)
    return (agents.get(conn, own) if own is not None else None) or agents.default(conn)


def add(conn: apsw.Connection, platform: str, word: str, *, agent: str | None = None, now_ms: int) -> Account:
    """Add a further account of the platform; *word* tells it from the others.

    Raises:
        ConfigInvalid: there is no such platform; or *word* can't be part of a name, or would name the first account.
        NotFound: there is no such agent.
        WrongState: there is such an account.
    """
    if platform not in registry.PLATFORMS:
        raise ConfigInvalid(f"there is no platform {platform!r}; known: {', '.join(sorted(registry.PLATFORMS))}")
    name = names.name_of(platform, word)
    if not names.is_further(name):
        raise ConfigInvalid(f"the first account of {platform} needs no row: give a further one a word, such as 'sales'")
    _check_agent(conn, agent)
    return accounts.add(conn, name, agent=agent, now_ms=now_ms)


def set_agent(conn: apsw.Connection, name: str, agent: str | None, *, now_ms: int) -> None:
    """Make the account the agent's own bot; None: for all agents. Chats that are wired already stay as they are.

    Raises:
        NotFound: there is no such account or agent.
    """
    if name not in registry.PLATFORMS:
        accounts.known(conn, name)
    _check_agent(conn, agent)
    accounts.set_agent(conn, name, agent, now_ms=now_ms)


def declare(conn: apsw.Connection, name: str, agent: str | None, *, now_ms: int) -> None:
    """Add the account called *name*, unless it is there, and make it the agent's own; None: of all agents.

    Raises:
        ConfigInvalid: it can't name an account.
        NotFound: there is no such agent.
    """
    platform, _, word = name.partition(".")
    if name in registry.PLATFORMS or accounts.get(conn, name) is not None:
        set_agent(conn, name, agent, now_ms=now_ms)
    else:
        add(conn, platform, word, agent=agent, now_ms=now_ms)


def _check_agent(conn: apsw.Connection, agent: str | None) -> None:
    if agent is not None and agents.get(conn, agent) is None:
        raise NotFound(f"there is no agent {agent!r}; GET /api/agents lists them")
