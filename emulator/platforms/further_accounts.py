"""The fake platforms of further accounts: each account has its own of them, in a file of its own.

Below ``/accounts/NAME`` each serves what the first account's serve at the top: ``/accounts/telegram.sales/chat`` is its
chat page, ``/accounts/telegram.sales/telegram`` its Bot API. People have the same ids everywhere, as on the real
platforms; chats, messages and updates belong to one bot.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from aiohttp import web
from yarl import URL

from emulator.base.fakes import PLATFORMS
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.errors import ActionRefused
from emulator.platforms.store import PlatformStore
from shared.core import accounts
from shared.core.errors import ConfigInvalid
from shared.roster import account_tokens

_FILE = "platforms{}.db"


class AccountWorld(Protocol):
    """The fake platforms of one account."""

    url: str
    fakes: Mapping[str, Any]  # each is a PlatformFake

    def begin(self, url: str) -> list[web.AbstractRouteDef]: ...
    async def register_one(self, platform: str) -> None: ...
    async def offer_commands(self) -> None: ...
    async def stop(self) -> None: ...


def file_of(account: str | None) -> str:
    """The name of the file with the chats of the account's bot; None: of the first ones."""
    return _FILE.format("" if account is None else f".{account}")


class FurtherAccounts:
    """Their fakes, by account; those whose file is there when the emulator starts, and those that are added.

    Args:
        make: fakes with this configuration, for the account of this name.
    """

    def __init__(self, config: PlatformsConfig, make: Callable[[PlatformsConfig, str], AccountWorld]) -> None:
        self._config, self._make = config, make
        self._worlds: dict[str, tuple[AccountWorld, web.UrlDispatcher]] = {}
        self._url = ""

    @property
    def names(self) -> list[str]:
        """The accounts, by name."""
        return sorted(self._worlds)

    async def begin(self, url: str) -> None:
        """Serve the accounts of earlier runs; the fakes answer at *url*."""
        self._url = url
        for path in sorted(self._config.state.glob(_FILE.format(".*"))):
            name = path.name.removeprefix("platforms.").removesuffix(".db")
            if is_name(name):
                self.open(name)

    def routes(self) -> list[web.AbstractRouteDef]:
        one = "/control/accounts/{account}"
        return [
            web.get("/control/accounts", self._list),
            web.put(one, self._add),
            web.delete(one, self._remove),
            web.route("*", "/accounts/{account}{path:/.*}", self._pass_on),
        ]

    async def register(self) -> None:
        """Register the webhooks of all accounts. Raises ConfigInvalid if a platform refuses one."""
        for name, (world, _) in self._worlds.items():
            self._keep_tokens(name, world)
            await self._register(name, world)

    async def stop(self) -> None:
        for world, _ in self._worlds.values():
            await world.stop()
        self._worlds.clear()

    def fakes(self, platform: str) -> list[Any]:
        """Their fakes of one platform."""
        return [world.fakes[platform] for world, _ in self._worlds.values()]

    def keep(self, name: str, facts: Mapping[str, str]) -> None:
        """Store *facts* of the account's bot, for when it is opened."""
        store = PlatformStore(self._config.state / file_of(name))
        for key, value in facts.items():
            store.put(key, value)
        store.close()

    def open(self, name: str) -> AccountWorld:
        """Give the account fakes of its own, and serve them."""
        base = self._config.webhook_urls[accounts.platform_of(name)].rpartition("/")[0]
        urls = dict.fromkeys(self._config.webhook_urls, f"{base}/{name}")
        world, router = self._make(replace(self._config, webhook_urls=urls, faults={}), name), web.UrlDispatcher()
        router.add_routes(world.begin(f"{self._url}/accounts/{name}"))
        self._worlds[name] = (world, router)
        return world

    def _keep_tokens(self, name: str, world: AccountWorld) -> None:
        """Put what the functions need into the file of tokens beside the database."""
        platform = accounts.platform_of(name)
        if self._config.account_tokens is not None:
            own, prefix = world.fakes[platform].environment(), accounts.prefix_of(platform)
            values = {key.removeprefix(prefix).lower(): value for key, value in own.items()}
            account_tokens.put(self._config.account_tokens, name, values)

    async def _register(self, name: str, world: AccountWorld) -> None:
        await world.offer_commands()
        await world.register_one(accounts.platform_of(name))

    # -- the control API

    async def _list(self, _: web.Request) -> web.Response:
        found = {name: {"url": world.url, "chat": f"{world.url}/chat"} for name, (world, _) in self._worlds.items()}
        return web.json_response({"accounts": found})

    async def _add(self, request: web.Request) -> web.Response:
        """Invent a bot for the account; its row must be there. A second time, only its webhook is registered again."""
        name = request.match_info["account"]
        if not is_name(name):
            raise ActionRefused(f"{name} can't name a further account; such as telegram.sales")
        known = self._worlds.get(name)
        world = known[0] if known is not None else self.open(name)
        self._keep_tokens(name, world)
        try:
            await self._register(name, world)
        except ConfigInvalid as error:
            raise ActionRefused(str(error)) from None
        return web.json_response({"name": name, "chat": f"{world.url}/chat"}, status=201)

    async def _remove(self, request: web.Request) -> web.Response:
        """Let the bot go, with its chats."""
        name = request.match_info["account"]
        if name not in self._worlds:
            raise ActionRefused(f"there is no account {name} on the fake platforms")
        world, _ = self._worlds.pop(name)
        await world.stop()
        for suffix in ("", "-wal", "-shm"):
            path = self._config.state / f"{file_of(name)}{suffix}"
            path.unlink(missing_ok=True)
        return web.json_response({"removed": name})

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        """Answer as the fakes of the account do: the same paths below its own."""
        known = self._worlds.get(request.match_info["account"])
        if known is None:
            raise web.HTTPNotFound
        path = request.rel_url.raw_path_qs.removeprefix(f"/accounts/{request.match_info['account']}")
        inner = request.clone(rel_url=URL(path, encoded=True))
        found = await known[1].resolve(inner)
        inner._match_info = found  # as aiohttp's own application does
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]] = found.handler
        return await handler(inner)


def is_name(name: str) -> bool:
    """Whether it is the name of a further account of a platform that there is a fake of."""
    platform, _, word = name.partition(".")
    try:
        return platform in PLATFORMS and accounts.name_of(platform, word) == name and bool(word)
    except ConfigInvalid:
        return False
