"""The chat page's server side: the page, its data, messages that people send through it, and live events.

It works at ``/chat`` and, behind the gateway, at ``/_emulator/chat``: the page derives its addresses from its own.
"""

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import web

from emulator.platforms.bus import EventBus, LiveEvent
from emulator.platforms.control import EITHER, find_chat, optional, platform_of, read_json, text
from emulator.platforms.discord.interactions import Interactions
from emulator.platforms.discord.people import DiscordPeople
from emulator.platforms.page_data import PageData
from emulator.platforms.store import PLATFORMS, PlatformStore
from emulator.platforms.telegram.people import TelegramPeople

PAGE = Path(__file__).with_name("chat.html")
PING_S = 15
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


class ChatPage:
    """Serves the page and its data."""

    def __init__(
        self,
        store: PlatformStore,
        bus: EventBus,
        telegram_people: TelegramPeople,
        interactions: Interactions,
        discord_people: DiscordPeople,
        page_data: PageData,
    ) -> None:
        self._store, self._bus, self._telegram_people, self._page_data = store, bus, telegram_people, page_data
        self._interactions, self._discord_people = interactions, discord_people

    def routes(self) -> list[web.AbstractRouteDef]:
        routes: list[web.AbstractRouteDef] = []
        for base in ("/chat", "/_emulator/chat"):
            either = f"{base}/{EITHER}"
            routes += [
                web.get(base, self._page),
                web.get(base + "/", self._page),
                web.get(base + "/state", self._state),
                web.get(base + "/events", self._events),
                web.get(either + "/chats/{chat}", self._transcript),
                web.post(either + "/say", self._say),
                web.post(either + "/press", self._press),
            ]
        return routes

    async def _page(self, request: web.Request) -> web.Response:
        """The page, with its first data embedded."""
        boot: dict[str, Any] = {"state": self._page_data.state(), "transcript": None}
        wanted, chat_id = request.query.get("platform", "telegram"), request.query.get("chat")
        platform = next((each for each in PLATFORMS if each == wanted), None)
        chats = self._store.chats(platform) if platform else []
        chat = next((chat for chat in chats if chat_id in (None, chat.id)), None)
        if chat is not None:
            boot["transcript"] = {"platform": platform, **self._page_data.transcript(chat)}
        data = json.dumps(boot, ensure_ascii=False).replace("<", "\\u003c")
        headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"}
        return web.Response(text=_template().replace("{{BOOT}}", data), content_type="text/html", headers=headers)

    async def _state(self, request: web.Request) -> web.Response:
        return web.json_response(self._page_data.state())

    async def _transcript(self, request: web.Request) -> web.Response:
        chat = find_chat(self._store, platform_of(request), request.match_info["chat"])
        return web.json_response(self._page_data.transcript(chat))

    async def _say(self, request: web.Request) -> web.Response:
        """A person writes (Telegram) or uses ``/ask`` (Discord). Answers before the delivery ends."""
        body = await read_json(request)
        person, said, chat = text(body, "person"), text(body, "text"), optional(body, "chat")
        if platform_of(request) == "telegram":
            return web.json_response(self._telegram_people.say(person, said, chat_id=chat), status=201)
        interaction = self._discord_people.ask(person, said.removeprefix("/ask "), channel_id=chat)
        return web.json_response(self._interactions.rows.delivery(interaction), status=201)

    async def _press(self, request: web.Request) -> web.Response:
        """A person presses a button. Answers before the delivery ends."""
        body = await read_json(request)
        pressed = (text(body, "chat"), text(body, "message"), text(body, "person"), text(body, "data"))
        if platform_of(request) == "telegram":
            return web.json_response(self._telegram_people.press(*pressed), status=201)
        interaction = self._discord_people.press(*pressed)
        return web.json_response(self._interactions.rows.delivery(interaction), status=201)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: ``message delivery call typing notice chat``; a comment every 15 s."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        async with self._bus.subscribe() as queue:
            await response.prepare(request)
            await response.write(b"retry: 1000\n\n")
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), PING_S)
                except TimeoutError:
                    await response.write(b": still here\n\n")
                    continue
                if event is None:
                    return response
                data = json.dumps(self._full(event), ensure_ascii=False)
                await response.write(f"event: {event.name}\ndata: {data}\n\n".encode())

    def _full(self, event: LiveEvent) -> Mapping[str, Any]:
        """The event's data; for a message, its current state."""
        if event.name != "message":
            return event.data
        found = self._page_data.find(event.data["platform"], event.data["chat"], event.data["id"])
        return found or event.data


@cache
def _template() -> str:
    return PAGE.read_text(encoding="utf-8")
