"""The fake Discord of one account: its REST API, its Gateway, interactions, and the people who cause them."""

from typing import Any

from aiohttp import web

from emulator.platforms.bus import EventBus
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.discord.acts.people import DiscordPeople
from emulator.platforms.discord.acts.routes import DiscordActs
from emulator.platforms.discord.acts.uses import DiscordUses
from emulator.platforms.discord.api import FakeDiscord
from emulator.platforms.discord.app import add_people, chat_then, discord_app
from emulator.platforms.discord.interactions import Interactions
from emulator.platforms.further_accounts import FurtherAccounts
from emulator.platforms.store import PlatformStore
from shared.channels.discord import command_list

__all__ = ["add_people", "bot_id", "chat_then", "fake"]


def fake(config: PlatformsConfig, store: PlatformStore, bus: EventBus, further: FurtherAccounts) -> "DiscordPlatform":
    return DiscordPlatform(config, store, bus)


def bot_id(store: PlatformStore) -> str:
    return discord_app(store).id


class DiscordPlatform:
    """The parts of the fake; a ``PlatformFake``."""

    can = ("files", "reply", "edit", "delete", "react", "menus", "threads", "commands", "names")
    mention = ""  # a command reaches the app anywhere

    def __init__(self, config: PlatformsConfig, store: PlatformStore, bus: EventBus) -> None:
        self._app = discord_app(store)
        self._api = FakeDiscord(config, store, bus, self._app)
        self.faults = self._api.guard.faults
        self._interactions = Interactions(config, store, bus, self._api)
        self.people = DiscordPeople(store, bus, self._api, self._interactions)
        uses = DiscordUses(store, self._api, self._interactions, self.people)
        self._acts = DiscordActs(config.clock, store, self._interactions, self.people, uses)
        self._url = ""

    def environment(self) -> dict[str, str]:
        return {
            "DISCORD_API_BASE": f"{self._url}/discord/api/v10",
            "DISCORD_APPLICATION_ID": self._app.id,
            "DISCORD_BOT_TOKEN": self._app.token,
            "DISCORD_PUBLIC_KEY": self._app.public_key,
            "DISCORD_RELAY_SECRET": self._app.relay_secret,
        }

    def begin(self, url: str) -> None:
        self._url = url
        self._api.start(url)
        self._interactions.start()

    async def stop(self) -> None:
        await self._interactions.stop()
        await self._api.gateway.stop()

    def routes(self) -> list[web.AbstractRouteDef]:
        return [*self._api.routes(), *self._interactions.routes(), *self._acts.routes()]

    def page_routes(self, base: str) -> list[web.AbstractRouteDef]:
        return self._acts.page_routes(base)

    async def register(self) -> None:
        """Let Discord check its endpoint. See ``PlatformFake.register``."""
        await self._interactions.register()

    async def offer_commands(self) -> None:
        self._api.application.offer(command_list.wanted(None))

    def say(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._acts.say(body)

    async def press(self, chat_id: str, message_id: str, person_id: str, data: str, *, waits: bool) -> dict[str, Any]:
        """See ``PlatformFake.press``; without a first answer, Discord waits for 3 s."""
        interaction = self.people.press(chat_id, message_id, person_id, data)
        if waits:
            interaction = await self._interactions.wait_settled(interaction)
        return self._interactions.rows.delivery(interaction)

    def deliveries(self, chat: str | None) -> list[dict[str, Any]]:
        return self._interactions.rows.deliveries(channel=chat)

    def send_again(self, ref: str) -> bool:
        self._interactions.replay(ref)
        return True
