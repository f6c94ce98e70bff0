"""A fake Discord REST API: the routes that a bot needs to read channels and write in them.

:mod:`.guard` checks every request. Unknown routes answer 404 with code 0. :mod:`.interactions` serves the routes of
interaction tokens.

Source: https://discord.com/developers/docs/reference (v10): routes, limits, error codes and their shapes.
"""

from aiohttp import web

from emulator.platforms.bus import EventBus
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.discord.app import DiscordApp
from emulator.platforms.discord.attachments import Cdn
from emulator.platforms.discord.calls import ApiResult
from emulator.platforms.discord.gateway.server import FakeGateway
from emulator.platforms.discord.gateway.sessions import GatewaySessions
from emulator.platforms.discord.guard import RouteGuard
from emulator.platforms.discord.guild_objects import GuildObjects
from emulator.platforms.discord.messages import DiscordMessages
from emulator.platforms.discord.objects import DiscordObjects
from emulator.platforms.discord.routes.application import ApplicationRoutes
from emulator.platforms.discord.routes.channels import ChannelRoutes
from emulator.platforms.discord.routes.places import DiscordPlaces
from emulator.platforms.discord.routes.threads import DiscordThreads
from emulator.platforms.discord.snowflakes import Snowflakes
from emulator.platforms.store import PlatformStore


class FakeDiscord:
    """The REST API of one application, and the parts that interactions and people share."""

    def __init__(self, config: PlatformsConfig, store: PlatformStore, bus: EventBus, app: DiscordApp) -> None:
        clock, self.app = config.clock, app
        self.guard = RouteGuard(config, store, bus, app)
        self.snowflakes = Snowflakes(clock, store)
        self.cdn = Cdn(clock, store, app)
        self.objects = DiscordObjects(store, app, self.cdn)
        guild, self.sessions = GuildObjects(store, app, self.objects), GatewaySessions(app.id)
        self.gateway = FakeGateway(config, app, self.sessions, guild)
        self.messages = DiscordMessages(clock, store, bus, app, self.snowflakes, self.objects, guild, self.sessions)
        places = DiscordPlaces(store)
        self.application = ApplicationRoutes(store, app, self.objects, guild, self.gateway, self.snowflakes)
        self.threads = DiscordThreads(clock, store, bus, self.snowflakes, self.objects, places, self.sessions)
        self._parts = (
            ChannelRoutes(clock, store, bus, app, self.objects, self.messages, places),
            self.threads,
            self.application,
        )

    def start(self, url: str) -> None:
        """*url* is where both fakes are served."""
        self.cdn.url = url
        self.gateway.url = f"{url.replace('http', 'ws', 1)}/discord/gateway"

    def routes(self) -> list[web.AbstractRouteDef]:
        table = [row for part in self._parts for row in part.table()]
        return [
            *self.guard.routes(table, needs_bot=True),
            *self.guard.routes([("GET", "/gateway", self._gateway_address)], needs_bot=False),
            *self.gateway.routes(),
            *self.cdn.routes(),
        ]

    async def _gateway_address(self, request: web.Request) -> ApiResult:
        return ApiResult(200, {"url": self.gateway.url})
