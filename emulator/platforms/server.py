"""All fakes, their control API and the chat page, on one socket."""

import asyncio
import socket

from aiohttp import web

from emulator.base.fakes import PLATFORMS
from emulator.base.faults import Faults, as_sentence
from emulator.base.limited_site import LimitedSite
from emulator.platforms.bot_names import name_bot
from emulator.platforms.bus import EventBus
from emulator.platforms.chat_page import ChatPage
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.control import ControlApi, plain_errors, slow_network
from emulator.platforms.fakes import module_of
from emulator.platforms.further_accounts import FurtherAccounts, file_of
from emulator.platforms.page_actions import PageActions
from emulator.platforms.page_data import PageData
from emulator.platforms.page_files import MAX_FORM_BYTES
from emulator.platforms.record.request_routes import RequestRoutes
from emulator.platforms.store import PlatformStore


class Platforms:
    """The fake platforms with one bot each, stored in one file of the state folder.

    Each further account has fakes of its own behind the same socket: see :mod:`.further_accounts`.

    ``start`` serves them on a socket that the caller has bound. ``register`` registers the addresses of our functions,
    which must answer by then. ``stop`` ends all work; undelivered updates stay in the file.
    """

    def __init__(self, config: PlatformsConfig, account: str | None = None) -> None:
        self._config, self._account = config, account
        self._store = PlatformStore(config.state / file_of(account))
        if account is not None:
            name_bot(self._store, account)
        self.further = FurtherAccounts(config, self._of_account)
        self._bus = EventBus()
        modules = {name: module_of(name) for name in PLATFORMS}
        for module in modules.values():
            module.add_people(self._store)
        self.fakes = {
            name: module.fake(config, self._store, self._bus, self.further) for name, module in modules.items()
        }
        self._site: LimitedSite | None = None
        self._is_open = True
        self.url = ""

    @property
    def _faults(self) -> dict[str, Faults]:
        """By target: those of the fakes, and of what else there is of the emulator."""
        return {**self._config.faults, **{name: fake.faults for name, fake in self.fakes.items()}}

    def faults(self) -> list[str]:
        """A sentence for each fault that was set and is not over."""
        return [as_sentence(fault) for faults in self._faults.values() for fault in faults.standing()]

    def environment(self) -> dict[str, str]:
        """The settings with which the functions reach and verify the fakes. Call it after ``start``."""
        return {name: value for fake in self.fakes.values() for name, value in fake.environment().items()}

    async def start(self, sock: socket.socket) -> None:
        """Serve on the bound socket *sock*. Deliveries begin with ``register``."""
        host, port = sock.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        middlewares = [plain_errors(self._config.door), slow_network(self._config)]
        app = web.Application(middlewares=middlewares, client_max_size=MAX_FORM_BYTES)
        app.add_routes(self.begin(url))
        await self.further.begin(url)
        app.add_routes(self.further.routes())
        # No access log: paths may contain a token, as Telegram's do.
        self._site = LimitedSite("the fake platforms", app, shutdown_timeout=1.0)
        await self._site.start(sock)

    def begin(self, url: str) -> list[web.AbstractRouteDef]:
        """Start what works between requests; the routes to serve below *url*."""
        self.url = url
        for fake in self.fakes.values():
            fake.begin(url)
        page_data = PageData(self._store, self.fakes)
        actions = PageActions(self._config.clock, self._store, self.fakes)
        before = self._config.before_fault
        control = ControlApi(self._store, self.fakes, page_data, actions, self.register, self._faults, before)
        page = ChatPage(
            self._store, self._bus, page_data, actions, lambda: self.further.names, self._config, self._account
        )
        record = RequestRoutes(self._store.requests, self._send_again)
        routes = [route for fake in self.fakes.values() for route in fake.routes()]
        return [*routes, *control.routes(), *record.routes(), *page.routes()]

    def _send_again(self, platform: str, ref: str) -> bool:
        """Send a webhook again; False if it is on its way still, or forgotten."""
        return self.fakes[platform].send_again(ref)

    def _of_account(self, config: PlatformsConfig, account: str) -> "Platforms":
        return Platforms(config, account)

    async def register(self) -> None:
        """Register the addresses of our functions at all platforms. Raises ConfigInvalid if one refuses."""
        for name in self.fakes:
            await self.register_one(name)
        await self.further.register()

    async def register_one(self, platform: str) -> None:
        """Register the address of our function at one platform. Raises ConfigInvalid if it refuses."""
        await self.fakes[platform].register()
        url = self._config.webhook_urls[platform]
        await asyncio.to_thread(self._config.registered, self._account or platform, url)

    async def offer_commands(self) -> None:
        """Register Postroom's commands where there are none, as ``emulator channel`` does at the real platforms."""
        for fake in self.fakes.values():
            await fake.offer_commands()

    async def stop(self) -> None:
        """End all streams and deliveries, stop the server, close the file. Safe to call twice."""
        self._bus.close()
        await self.further.stop()
        for fake in self.fakes.values():
            await fake.stop()
        if self._site is not None:
            await self._site.stop()
            self._site = None
        if self._is_open:
            self._is_open = False
            self._store.close()
