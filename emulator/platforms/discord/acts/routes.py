"""What people do on Discord alone: commands, suggestions, menus, selects, forms and threads, on the chat page.

Below ``/control/discord``::

    POST /users/{person}/ask          {prompt, channel?, command?, wait?}
    POST /users/{person}/message      {text, channel?, reply_to?}   reaches the bot through the Gateway alone
    GET  /interactions?channel=, POST /interactions/{interaction}/replay
    GET  /gateway, POST /gateway                     see :mod:`emulator.platforms.discord.gateway`
"""

import json
from typing import Any

from aiohttp import web

from emulator.platforms import page_files
from emulator.platforms.config import Clock
from emulator.platforms.discord.acts.people import DiscordPeople
from emulator.platforms.discord.acts.uses import DiscordUses
from emulator.platforms.discord.interaction_rows import InteractionRow
from emulator.platforms.discord.interactions import Interactions
from emulator.platforms.errors import ActionRefused
from emulator.platforms.request_parts import optional, read_json, text
from emulator.platforms.store import PlatformStore


class DiscordActs:
    """The handlers."""

    def __init__(
        self, clock: Clock, store: PlatformStore, interactions: Interactions, people: DiscordPeople, uses: DiscordUses
    ) -> None:
        self._clock, self._store, self._interactions = clock, store, interactions
        self._people, self._uses = people, uses

    def routes(self) -> list[web.AbstractRouteDef]:
        base = "/control/discord"
        return [
            web.post(base + "/users/{person}/ask", self._ask),
            web.post(base + "/users/{person}/message", self._type),
            web.get(base + "/interactions", self._list_interactions),
            web.post(base + "/interactions/{interaction}/replay", self._replay),
        ]

    async def _ask(self, request: web.Request) -> web.Response:
        """Answers after the initial response, or after 3 s without one."""
        body = await read_json(request)
        interaction = self._people.ask(
            request.match_info["person"],
            text(body, "prompt"),
            channel_id=optional(body, "channel"),
            command=optional(body, "command") or "ask",
        )
        if body.get("wait", True):
            interaction = await self._interactions.wait_settled(interaction)
        return self._delivery(interaction)

    async def _type(self, request: web.Request) -> web.Response:
        """A person types a message, without a command: an app gets it through the Gateway alone."""
        body = await read_json(request)
        message = self._people.say(
            request.match_info["person"],
            text(body, "text"),
            channel_id=optional(body, "channel"),
            reply_to=optional(body, "reply_to"),
        )
        return web.json_response({"chat": message.chat, "message_id": message.id}, status=201)

    async def _list_interactions(self, request: web.Request) -> web.Response:
        found = self._interactions.rows.deliveries(channel=request.query.get("channel"))
        return web.json_response({"interactions": found})

    async def _replay(self, request: web.Request) -> web.Response:
        interaction = self._interactions.replay(request.match_info["interaction"])
        await self._interactions.wait_settled(interaction)
        return self._delivery(interaction)

    # the chat page

    def page_routes(self, base: str) -> list[web.AbstractRouteDef]:
        return [
            web.post(base + "/choices", self._choices),
            web.post(base + "/menu", self._menu),
            web.post(base + "/select", self._select),
            web.post(base + "/submit", self._submit),
            web.post(base + "/threads", self._open_thread),
        ]

    def say(self, body: dict[str, Any]) -> dict[str, Any]:
        """A person uses ``command`` with ``options``, or writes plain text (``plain``), which only a Gateway carries.

        Without either, the text is the prompt of ``/ask``, whether the app registered it or not.
        """
        person, chat, said = text(body, "person"), optional(body, "chat"), text(body, "text")
        if body.get("plain") in (True, "true"):
            shown, reply_to = body["files"], optional(body, "reply_to")
            message = self._people.say(person, said, channel_id=chat, reply_to=reply_to, shown=shown)
            return {"chat": message.chat, "message": message.id}
        if (command := optional(body, "command")) is not None:
            options = _object(body.get("options"))
            done = self._uses.command(person, command, options, channel_id=chat, shown=body["files"])
            return self._interactions.rows.delivery(done)
        if body["files"]:
            raise ActionRefused("the app has registered no command that takes files")
        asked = self._people.ask(person, said.removeprefix("/ask "), channel_id=chat)
        return self._interactions.rows.delivery(asked)

    async def _choices(self, request: web.Request) -> web.Response:
        """Suggestions for the option ``focused`` of a command."""
        body = await read_json(request)
        found = await self._uses.choices(
            text(body, "person"),
            text(body, "command"),
            _object(body.get("options")),
            text(body, "focused"),
            channel_id=optional(body, "chat"),
        )
        return web.json_response({"choices": found})

    async def _menu(self, request: web.Request) -> web.Response:
        """A command in the menu of ``message``, or of the person ``target``."""
        body = await read_json(request)
        message, target = optional(body, "message") or "", optional(body, "target") or ""
        person, command, chat = text(body, "person"), text(body, "command"), text(body, "chat")
        return self._delivery(self._uses.menu(person, command, chat, message_id=message, target=target))

    async def _select(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        values = [str(value) for value in body.get("values") or []]
        place = (text(body, "person"), text(body, "chat"), text(body, "message"))
        return self._delivery(self._uses.select(*place, text(body, "data"), values))

    async def _submit(self, request: web.Request) -> web.Response:
        """The form that answered ``interaction``, as JSON or with files."""
        if request.content_type == "multipart/form-data":
            body = await page_files.read_upload(request, self._store.files, now_ms=self._clock.now_ms())
        else:
            body = {**await read_json(request), "files": []}
        given = _object(body.get("values"))
        done = self._uses.submit(text(body, "person"), text(body, "interaction"), given, shown=body["files"])
        return self._delivery(done)

    async def _open_thread(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        place = (text(body, "person"), text(body, "chat"), text(body, "name"))
        thread = self._people.open_thread(*place, message_id=optional(body, "message"))
        return web.json_response({"chat": thread.id}, status=201)

    def _delivery(self, interaction: InteractionRow) -> web.Response:
        return web.json_response(self._interactions.rows.delivery(interaction), status=201)


def _object(value: Any) -> dict[str, Any]:
    """The JSON object *value*, which a form holds as a text."""
    found = json.loads(value) if isinstance(value, str) else value or {}
    if not isinstance(found, dict):
        raise ActionRefused("options and values are JSON objects")
    return found
