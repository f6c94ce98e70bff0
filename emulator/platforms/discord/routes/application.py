"""The routes about the app itself: its users, its endpoint, its commands, the server it is in, the Gateway's address.

Source: https://discord.com/developers/docs/resources/application, interactions/application-commands
"""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

from emulator.platforms.discord.app import GUILD_ID, DiscordApp
from emulator.platforms.discord.calls import ApiResult, DiscordError, invalid, read_body, read_json
from emulator.platforms.discord.gateway.server import FakeGateway
from emulator.platforms.discord.guild_objects import GuildObjects, member
from emulator.platforms.discord.objects import DiscordObjects
from emulator.platforms.discord.snowflakes import Snowflakes
from emulator.platforms.store import PlatformStore

SLASH, USER_MENU, MESSAGE_MENU = 1, 2, 3
MOST = {SLASH: 100, USER_MENU: 15, MESSAGE_MENU: 15}  # commands of a scope, by type
_COMMAND: dict[str, Any] = {
    "type": SLASH,
    "name_localizations": None,
    "description": "",
    "description_localizations": None,
    "options": [],
    "default_member_permissions": None,
    "dm_permission": True,
    "contexts": None,
    "integration_types": [0],
    "nsfw": False,
}
_EVERYWHERE = "discord.commands"  # where the global commands are kept


class ApplicationRoutes:
    """Serves the routes. *set_endpoint* checks an address as Discord does, and raises ConfigInvalid."""

    def __init__(
        self,
        store: PlatformStore,
        app: DiscordApp,
        objects: DiscordObjects,
        guild: GuildObjects,
        gateway: FakeGateway,
        snowflakes: Snowflakes,
    ) -> None:
        self._store, self._app, self._objects = store, app, objects
        self._guild, self._gateway, self._snowflakes = guild, gateway, snowflakes
        self.interactions_url: Callable[[], str | None] = lambda: None
        self.set_interactions_url: Callable[[str | None], Awaitable[None]] | None = None

    def table(self) -> tuple[tuple[str, str, Any], ...]:
        scopes = ("/applications/{app}", "/applications/{app}/guilds/{guild}")
        commands = [row for scope in scopes for row in self._command_table(scope + "/commands")]
        return (
            ("GET", "/users/@me", self._me),
            ("GET", "/users/@me/guilds", self._guilds),
            ("GET", "/users/{user}", self._user),
            ("GET", "/applications/@me", self._application),
            ("PATCH", "/applications/@me", self._change_application),
            ("GET", "/oauth2/applications/@me", self._application),
            ("GET", "/gateway/bot", self._gateway_bot),
            ("GET", "/guilds/{guild}", self._get_guild),
            ("GET", "/guilds/{guild}/channels", self._channels),
            ("GET", "/guilds/{guild}/members/{user}", self._member),
            *commands,
        )

    def _command_table(self, path: str) -> tuple[tuple[str, str, Any], ...]:
        return (
            ("GET", path, self._get_commands),
            ("PUT", path, self._put_commands),
            ("POST", path, self._post_command),
            ("GET", path + "/{command}", self._get_command),
            ("PATCH", path + "/{command}", self._patch_command),
            ("DELETE", path + "/{command}", self._delete_command),
        )

    # the app

    async def _me(self, request: web.Request) -> ApiResult:
        return ApiResult(200, self._objects.me)

    async def _user(self, request: web.Request) -> ApiResult:
        user = self._objects.user_of(request.match_info["user"])
        if user is None:
            raise DiscordError(404, 10013, "Unknown User")
        return ApiResult(200, user)

    async def _application(self, request: web.Request) -> ApiResult:
        return ApiResult(200, self._guild.application(self.interactions_url()))

    async def _change_application(self, request: web.Request) -> ApiResult:
        """A new address for interactions is checked at once; null lets them go to the Gateway."""
        body = await read_body(request)
        if "interactions_endpoint_url" in body and self.set_interactions_url is not None:
            await self.set_interactions_url(body["interactions_endpoint_url"] or None)
        return await self._application(request)

    async def _gateway_bot(self, request: web.Request) -> ApiResult:
        return ApiResult(
            200, {"url": self._gateway.url, "shards": 1, "session_start_limit": self._gateway.start_limit()}
        )

    # the server

    async def _guilds(self, request: web.Request) -> ApiResult:
        guild = self._guild.guild()
        known = {key: guild[key] for key in ("id", "name", "icon", "banner", "features")}
        return ApiResult(200, [{**known, "owner": False, "permissions": "2248473465835073"}])

    async def _get_guild(self, request: web.Request) -> ApiResult:
        self._check_guild(request)
        return ApiResult(200, self._guild.guild())

    async def _channels(self, request: web.Request) -> ApiResult:
        self._check_guild(request)
        chats = [chat for chat in self._store.chats("discord") if chat.kind == "channel"]
        return ApiResult(200, [self._objects.channel(chat) for chat in chats])

    async def _member(self, request: web.Request) -> ApiResult:
        self._check_guild(request)
        user = self._objects.user_of(request.match_info["user"])
        if user is None:
            raise DiscordError(404, 10007, "Unknown Member")
        return ApiResult(200, member(user))

    def _check_guild(self, request: web.Request) -> None:
        if request.match_info.get("guild", GUILD_ID) != GUILD_ID:
            raise DiscordError(404, 10004, "Unknown Guild")

    # commands

    async def _get_commands(self, request: web.Request) -> ApiResult:
        return ApiResult(200, self._commands(request))

    async def _put_commands(self, request: web.Request) -> ApiResult:
        """Replace all commands of the scope; a command that keeps its name and type keeps its id."""
        known = {(command["name"], command["type"]): command["id"] for command in self._commands(request)}
        given = await read_json(request) or []
        _check_commands(given)
        kept = [self._command(request, each, known.get((each["name"], each.get("type", SLASH)))) for each in given]
        self._keep(request, kept)
        return ApiResult(200, kept)

    async def _post_command(self, request: web.Request) -> ApiResult:
        """Add a command, or replace the one of the same name and type."""
        given, known = await read_body(request), self._commands(request)
        kind = given.get("type", SLASH)
        same = next((each for each in known if (each["name"], each["type"]) == (given.get("name"), kind)), None)
        _check_commands([*(each for each in known if each is not same), given])
        made = self._command(request, given, same["id"] if same else None)
        self._keep(request, [*(each for each in known if each is not same), made])
        return ApiResult(200 if same else 201, made)

    async def _get_command(self, request: web.Request) -> ApiResult:
        return ApiResult(200, self._one(request))

    async def _patch_command(self, request: web.Request) -> ApiResult:
        old = self._one(request)
        changed = {**old, **await read_body(request), "version": str(self._snowflakes.next())}
        commands = [changed if each["id"] == old["id"] else each for each in self._commands(request)]
        _check_commands(commands)
        self._keep(request, commands)
        return ApiResult(200, changed)

    async def _delete_command(self, request: web.Request) -> ApiResult:
        old = self._one(request)
        self._keep(request, [each for each in self._commands(request) if each["id"] != old["id"]])
        return ApiResult(204)

    def _one(self, request: web.Request) -> dict[str, Any]:
        for command in self._commands(request):
            if command["id"] == request.match_info["command"]:
                return command
        raise DiscordError(404, 10063, "Unknown application command")

    def offer(self, commands: Sequence[dict[str, Any]]) -> None:
        """Register *commands* everywhere, as the app's operator does; not where some are registered already."""
        if self._store.get(_EVERYWHERE) is None:
            self._store.put(_EVERYWHERE, json.dumps([self._completed(each, None, {}) for each in commands]))

    def _command(self, request: web.Request, given: dict[str, Any], known_id: str | None) -> dict[str, Any]:
        guild = {"guild_id": GUILD_ID} if "guild" in request.match_info else {}
        return self._completed(given, known_id, guild)

    def _completed(self, given: dict[str, Any], known_id: str | None, guild: dict[str, str]) -> dict[str, Any]:
        new = str(self._snowflakes.next())
        ids = {"id": known_id or new, "application_id": self._app.id, "version": new}
        named = {key: value for key, value in given.items() if key != "id" and value is not None}
        return {**_COMMAND, **ids, **guild, **named}

    def _commands(self, request: web.Request) -> list[dict[str, Any]]:
        if request.match_info["app"] != self._app.id:
            raise DiscordError(403, 20012, "You are not authorized to perform this action on this application")
        self._check_guild(request)
        return list(json.loads(self._store.get(_key(request)) or "[]"))

    def _keep(self, request: web.Request, commands: list[dict[str, Any]]) -> None:
        self._store.put(_key(request), json.dumps(commands))


def _key(request: web.Request) -> str:
    return _EVERYWHERE + (".guild" if "guild" in request.match_info else "")


def _check_commands(commands: Any) -> None:
    if not isinstance(commands, list) or not all(isinstance(command, dict) for command in commands):
        raise DiscordError(400, 50035, "Invalid Form Body")
    for index, command in enumerate(commands):
        if not is_command_name(str(command.get("name", "")), command.get("type", SLASH)):
            raise invalid(f"{index}", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
    named = [(command.get("type", SLASH), command["name"]) for command in commands]
    if len(set(named)) < len(named):
        raise invalid("name", "APPLICATION_COMMANDS_DUPLICATE_NAME", "Application command names must be unique")
    for kind, most in MOST.items():
        if sum(each == kind for each, _ in named) > most:
            raise DiscordError(400, 30032, f"Maximum number of application commands reached ({most})")


def is_command_name(name: str, kind: Any) -> bool:
    """Whether *name* is valid for a command. Source: interactions/application-commands#application-command-object."""
    if kind == SLASH:
        return bool(re.fullmatch(r"[-_'\w]{1,32}", name)) and name == name.lower()
    return 0 < len(name) <= 32
