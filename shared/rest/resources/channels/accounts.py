"""Accounts: the bots and apps of the platforms, and whose bot each one is. Tokens are never in an answer."""

from typing import Annotated, Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.channels import account_settings, registry
from shared.core import accounts as names
from shared.core.errors import NotFound, WrongState
from shared.core.time import clock
from shared.db.platforms import channel_pauses
from shared.db.roster import accounts
from shared.db.roster.accounts import Account
from shared.rest.http.common import OK, Ok
from shared.rest.http.endpoint import Body, Query, endpoint
from shared.rest.http.service import Service
from shared.roster import account_tokens
from shared.roster import accounts as roster

AgentId = Annotated[str, Field(max_length=64)]


class AccountView(TypedDict):
    """One account.

    *address*: the path of its webhook. *variables*: the settings that ingest, dispatch, deliver and sweep need.
    *status*: active, wanted (a person was asked to make the bot) or given (its token is being fetched). *agent*: whose
    bot it is; null: of all agents. *manager*: the account whose bot made it. *failure*: why the last attempt
    to set it up failed. *paused*: why nothing is sent through it.
    """

    name: str
    platform: str
    status: str
    address: str
    variables: list[str]
    botId: str | None
    username: str | None
    agent: str | None
    manager: str | None
    failure: str | None
    paused: str | None


class SavedAccount(TypedDict):
    """The account after the change."""

    ok: Literal[True]
    account: AccountView


class NewAccountBody(Body):
    """*name*: the word that distinguishes it from the other accounts of the platform. *agent*: whose bot it is."""

    platform: str = Field(max_length=32)
    name: str = Field(min_length=1, max_length=64)
    agent: AgentId | None = None


class AccountChangeBody(Body):
    """*agent*: whose bot it is; null: of all agents."""

    agent: AgentId | None


class RemovalQuery(Query):
    """*force*: also where responses still wait."""

    force: bool = False


@endpoint("GET", "/api/accounts")
async def get_accounts(service: Service) -> list[AccountView]:
    """List the accounts: the first one of each platform, and those that were added."""
    return _every(service.reader)


@endpoint("GET", "/api/accounts/{name}", {404: "there is no such account"})
async def get_account(service: Service, *, name: str) -> AccountView:
    """Read one account."""
    return _known(service.reader, name)


@endpoint("POST", "/api/accounts", {404: "there is no such agent", 409: "there is such an account"})
async def post_account(service: Service, *, body: NewAccountBody) -> SavedAccount:
    """Add a further bot or app of a platform. Its tokens are settings, which the answer names."""

    def work(conn: apsw.Connection) -> AccountView:
        made = roster.add(conn, body.platform, body.name, agent=body.agent, now_ms=clock.now_ms())
        return _known(conn, made.name)

    return {"ok": True, "account": await service.change(work, "deliver")}


@endpoint("PATCH", "/api/accounts/{name}", {404: "there is no such account or agent"})
async def patch_account(service: Service, *, name: str, body: AccountChangeBody) -> SavedAccount:
    """Say whose bot it is. New chats go to that agent; chats that are wired already stay as they are."""

    def work(conn: apsw.Connection) -> AccountView:
        roster.set_agent(conn, name, body.agent, now_ms=clock.now_ms())
        return _known(conn, name)

    return {"ok": True, "account": await service.change(work)}


@endpoint(
    "DELETE",
    "/api/accounts/{name}",
    {404: "there is no such account", 409: "it is the first of its platform, or responses still wait for it"},
)
async def delete_account(service: Service, *, name: str, query: RemovalQuery) -> Ok:
    """Take no more webhooks for the account and send nothing more through it. Its chats and their history stay."""

    def work(conn: apsw.Connection) -> None:
        if name in registry.PLATFORMS:
            raise WrongState(f"{name} is the first account of its platform: take its variables out of the settings")
        waiting = accounts.waiting(conn, name)
        if waiting and not query.force:
            raise WrongState(
                f"{waiting} responses still wait to be sent through {name}; with ?force=true they wait until an "
                "account of this name is added again"
            )
        if not accounts.remove(conn, name):
            raise NotFound(f"there is no account {name!r}; GET /api/accounts lists them")

    await service.change(work, "deliver")
    account_tokens.forget(service.settings.account_tokens, name)
    return OK


def _every(conn: apsw.Connection) -> list[AccountView]:
    found = {each.name: each for each in accounts.every(conn)}
    pauses = channel_pauses.every(conn)
    every = dict.fromkeys([*registry.PLATFORMS, *found])
    return [_view(name, found.get(name), pauses) for name in sorted(every) if registry.is_adapted(name)]


def _known(conn: apsw.Connection, name: str) -> AccountView:
    found = next((each for each in _every(conn) if each["name"] == name), None)
    if found is None:
        raise NotFound(f"there is no account {name!r}; GET /api/accounts lists them")
    return found


def _view(name: str, row: Account | None, pauses: dict[str, channel_pauses.ChannelPause]) -> AccountView:
    manifest = registry.manifest(name)
    needed = [each.name for each in manifest.settings if each.is_needed]
    username = (row and row.username) or account_settings.stated(name, manifest.username_setting)
    return {
        "name": name,
        "platform": names.platform_of(name),
        "status": row.status if row else "active",
        "address": f"/webhooks/{name}",
        "variables": [f"{names.prefix_of(name)}{each}" for each in needed],
        "botId": (row and row.bot_id) or account_settings.stated(name, manifest.bot_id_setting),
        "username": username and username.removeprefix("@"),
        "agent": row.agent if row else None,
        "manager": row.manager if row else None,
        "failure": row.failure if row else None,
        "paused": pauses[name].reason if name in pauses else None,
    }


ENDPOINTS = (get_accounts, get_account, post_account, patch_account, delete_account)
