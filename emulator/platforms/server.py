"""Both fakes, their control API and the chat page, on one socket."""

import asyncio
import socket
from collections.abc import Mapping

from aiohttp import web

from emulator.base.faults import Faults, as_sentence
from emulator.base.limited_site import LimitedSite
from emulator.platforms.bus import EventBus
from emulator.platforms.chat_page import ChatPage
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.control import ControlApi, plain_errors, slow_network
from emulator.platforms.discord.api import FakeDiscord
from emulator.platforms.discord.interactions import Interactions
from emulator.platforms.discord.people import DiscordPeople
from emulator.platforms.discord.uses import DiscordUses
from emulator.platforms.further_accounts import FurtherAccounts, file_of
from emulator.platforms.initial_people import add_initial_people, discord_app, name_bot, telegram_bot
from emulator.platforms.page_actions import PageActions
from emulator.platforms.page_data import PageData
from emulator.platforms.record.request_routes import RequestRoutes
from emulator.platforms.store import PlatformStore
from emulator.platforms.telegram.api import FakeTelegram
from emulator.platforms.telegram.calls import MAX_FORM_BYTES
from emulator.platforms.telegram.chat_actions import TelegramChatActions
from emulator.platforms.telegram.people import TelegramPeople
from shared.channels.discord import command_list
from shared.channels.telegram.webhooks import UPDATES
from shared.conversation.routing.commands import MENU
from shared.core.errors import ConfigInvalid


class Platforms:
    """The fake Telegram and the fake Discord with one bot each, stored in one file of the state folder.

    Each further account has a pair of its own behind the same socket: see :mod:`.further_accounts`.

    ``start`` serves them on a socket that the caller has bound. ``register`` registers the addresses of our functions,
    which must answer by then. ``stop`` ends all work; undelivered updates stay in the file.
    """

    def __init__(self, config: PlatformsConfig, account: str | None = None) -> None:
        self._config, self._account = config, account
        self._store = PlatformStore(config.state / file_of(account))
        add_initial_people(self._store)
        if account is not None:
            name_bot(self._store, account)
        self.further = FurtherAccounts(config, self._of_account)
        self._bot, self._app = telegram_bot(self._store), discord_app(self._store)
        self._bus = EventBus()
        self._telegram = FakeTelegram(config, self._store, self._bus, self._bot)
        self._telegram_people = TelegramPeople(
            config, self._store, self._bus, self._telegram.objects, self._telegram.updates
        )
        self._discord = FakeDiscord(config, self._store, self._bus, self._app)
        self._interactions = Interactions(config, self._store, self._bus, self._discord)
        self._discord_people = DiscordPeople(self._store, self._bus, self._discord, self._interactions)
        self._telegram.bot_of = self.further.bot_of
        self._telegram.managed.adopt = self.further.adopt
        self._telegram_people.make_bot = self._telegram.managed.create
        self._site: LimitedSite | None = None
        self._is_open = True
        self.url = ""

    @property
    def telegram(self) -> FakeTelegram:
        """The Bot API of the bot on Telegram."""
        return self._telegram

    @property
    def _faults(self) -> dict[str, Faults]:
        """By target: those of both fakes, and of what else there is of the emulator."""
        own = {"telegram": self._telegram.faults, "discord": self._discord.guard.faults}
        return {**self._config.faults, **own}

    def faults(self) -> list[str]:
        """A sentence for each fault that was set and is not over."""
        return [as_sentence(fault) for faults in self._faults.values() for fault in faults.standing()]

    def environment(self) -> dict[str, str]:
        """The settings with which the functions reach and verify the fakes. Call it after ``start``."""
        return {
            "TELEGRAM_API_BASE": f"{self.url}/telegram",
            "TELEGRAM_BOT_TOKEN": self._bot.token,
            "TELEGRAM_BOT_USERNAME": self._bot.username,
            "TELEGRAM_WEBHOOK_SECRET": self._bot.webhook_secret,
            "DISCORD_API_BASE": f"{self.url}/discord/api/v10",
            "DISCORD_APPLICATION_ID": self._app.id,
            "DISCORD_BOT_TOKEN": self._app.token,
            "DISCORD_PUBLIC_KEY": self._app.public_key,
            "DISCORD_RELAY_SECRET": self._app.relay_secret,
        }

    async def start(self, sock: socket.socket) -> None:
        """Serve on the bound socket *sock*. Deliveries begin with ``register``."""
        host, port = sock.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        middlewares = [plain_errors(self._config.door), slow_network(self._config)]
        app = web.Application(middlewares=middlewares, client_max_size=MAX_FORM_BYTES)
        app.add_routes(self.begin(url))
        await self.further.begin(url)
        app.add_routes(self.further.routes())
        # No access log: Telegram's paths contain the token.
        self._site = LimitedSite("the fake platforms", app, shutdown_timeout=1.0)
        await self._site.start(sock)

    def begin(self, url: str) -> list[web.AbstractRouteDef]:
        """Start what works between requests; the routes to serve below *url*."""
        self.url = url
        page_data = PageData(self._store, self._telegram.updates, self._interactions)
        clock = self._config.clock
        telegram = self._telegram
        actions = PageActions(
            clock,
            self._store,
            self._telegram_people,
            TelegramChatActions(
                clock, self._store, self._bus, self._telegram_people, telegram.objects, telegram.updates
            ),
            self._interactions,
            self._discord_people,
            DiscordUses(self._store, self._discord, self._interactions, self._discord_people),
        )
        control = ControlApi(
            self._store,
            self._bus,
            self._telegram,
            self._telegram_people,
            self._discord,
            self._interactions,
            self._discord_people,
            page_data,
            actions,
            self.register,
            self._faults,
            self._config.before_fault,
        )
        page = ChatPage(
            self._store, self._bus, page_data, actions, lambda: self.further.names, self._config, self._account
        )
        self._discord.start(self.url)
        self._telegram.updates.start()
        self._interactions.start()
        record = RequestRoutes(self._store.requests, self._send_again)
        parts = (self._telegram, self._discord, self._interactions, control, record, page)
        return [route for part in parts for route in part.routes()]

    def _send_again(self, platform: str, ref: str) -> bool:
        """Send a webhook again; False if it is on its way still, or forgotten."""
        if platform == "telegram":
            return self._telegram.updates.redeliver(int(ref))
        self._interactions.replay(ref)
        return True

    def _of_account(self, config: PlatformsConfig, account: str) -> "Platforms":
        return Platforms(config, account)

    async def register(self) -> None:
        """Set Telegram's webhook and let Discord check its endpoint. Raises ConfigInvalid if one refuses."""
        await self.register_telegram()
        await self.register_discord()
        await self.further.register()

    async def offer_commands(self) -> None:
        """Register Postroom's commands where there are none, as ``emulator channel`` does at the real platforms."""
        listed = [{"command": name, "description": words} for name, words in MENU.items()]
        known = await self._telegram.call("getMyCommands", {})
        if known.get("result") == []:
            await self._telegram.call("setMyCommands", {"commands": listed})
        self._discord.application.offer(command_list.wanted(None))

    async def register_discord(self) -> None:
        """Let Discord check its endpoint. Raises ConfigInvalid if it refuses."""
        await self._interactions.register()
        await self._registered("discord", self._config.discord_interactions_url)

    async def _registered(self, platform: str, url: str) -> None:
        await asyncio.to_thread(self._config.registered, self._account or platform, url)

    async def register_telegram(self) -> None:
        """Set Telegram's webhook. Raises ConfigInvalid if Telegram refuses."""
        webhook: Mapping[str, object] = {
            "url": self._config.telegram_webhook_url,
            "secret_token": self._bot.webhook_secret,
            "allowed_updates": list(UPDATES),
        }
        answer = await self._telegram.call("setWebhook", webhook)
        if answer.get("error_code") == 429:
            await self._config.clock.sleep(1000)
            answer = await self._telegram.call("setWebhook", webhook)
        if not answer["ok"]:
            raise ConfigInvalid(f"Telegram refused {self._config.telegram_webhook_url}: {answer['description']}")
        await self._registered("telegram", self._config.telegram_webhook_url)

    async def stop(self) -> None:
        """End all streams and deliveries, stop the server, close the file. Safe to call twice."""
        self._bus.close()
        await self.further.stop()
        await self._telegram.updates.stop()
        await self._interactions.stop()
        await self._discord.gateway.stop()
        if self._site is not None:
            await self._site.stop()
            self._site = None
        if self._is_open:
            self._is_open = False
            self._store.close()
