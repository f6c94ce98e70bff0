"""The chat page's server side: the page, its data, its files and live events; :mod:`.page_actions` has the actions.

It works at ``/chat`` and, behind the gateway, at ``/_emulator/chat``: the page derives its addresses from its own.
"""

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import web

from emulator.base.fakes import PLATFORMS
from emulator.platforms import page_files
from emulator.platforms.bus import EventBus, LiveEvent
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.page_actions import PageActions
from emulator.platforms.page_data import PIECE, PageData
from emulator.platforms.request_parts import EITHER, find_chat, platform_of
from emulator.platforms.store import PlatformStore

PAGE = Path(__file__).with_name("page")
# The page's scripts, in this order: each uses those before it.
SCRIPTS = (
    "base",
    "format",
    "files",
    "side",
    "contents",
    "why",
    "message",
    "log",
    "steps",
    "menus",
    "forms",
    "composer",
    "live",
    "keys",
    "unwell",
)
PING_S = 15
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; connect-src 'self';"
    " img-src 'self' data: blob:; media-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


class ChatPage:
    """Serves the page and its data."""

    def __init__(
        self,
        store: PlatformStore,
        bus: EventBus,
        page_data: PageData,
        actions: PageActions,
        accounts: Callable[[], Sequence[str]],
        config: PlatformsConfig,
        account: str | None,
    ) -> None:
        self._store, self._bus, self._page_data, self._actions = store, bus, page_data, actions
        self._further, self._config, self._account = accounts, config, account

    def routes(self) -> list[web.AbstractRouteDef]:
        routes: list[web.AbstractRouteDef] = []
        for base in ("/chat", "/_emulator/chat"):
            either = f"{base}/{EITHER}"
            routes += [
                web.get(base, self._page),
                web.get(base + "/", self._page),
                web.get(base + "/state", self._state),
                web.get(base + "/accounts", self._accounts),
                web.get(base + "/unwell", self._unwell),
                web.get(base + "/events", self._events),
                web.get(either + "/chats/{chat}", self._transcript),
                web.get(either + "/webhooks/{ref}", self._webhooks),
                web.get(either + "/chats/{chat}/messages/{message}/why", self._why),
                web.get(base + "/files/{file}", self._file),
                *self._actions.routes(base),
            ]
        return routes

    async def _page(self, request: web.Request) -> web.Response:
        """The page, with its first data embedded."""
        boot: dict[str, Any] = {"mark": self._bus.mark(), "state": self._page_data.state(), "transcript": None}
        wanted, chat_id = request.query.get("platform", PLATFORMS[0]), request.query.get("chat")
        platform = next((each for each in PLATFORMS if each == wanted), None)
        chats = self._store.chats(platform) if platform else []
        chat = next((chat for chat in chats if chat_id in (None, chat.id)), None)
        if chat is not None:
            boot["transcript"] = {"platform": platform, **self._page_data.transcript(chat, limit=PIECE)}
        data, nonce = json.dumps(boot, ensure_ascii=False).replace("<", "\\u003c"), secrets.token_urlsafe(16)
        page = _template().replace("{{NONCE}}", nonce).replace("{{BOOT}}", data)
        headers = {"Content-Security-Policy": _POLICY.format(nonce=nonce), "Cache-Control": "no-store"}
        return web.Response(text=page, content_type="text/html", headers=headers)

    async def _state(self, request: web.Request) -> web.Response:
        return web.json_response(self._page_data.state())

    async def _accounts(self, request: web.Request) -> web.Response:
        """The names of the further accounts; each has a chat page of its own."""
        return web.json_response({"accounts": list(self._further())})

    async def _unwell(self, request: web.Request) -> web.Response:
        """What Postroom says of its health: a sentence for each thing; and what the time is."""
        return web.json_response({"unwell": list(await self._config.unwell()), "now": self._config.clock.now_ms()})

    async def _transcript(self, request: web.Request) -> web.Response:
        """A conversation; ``?before=`` asks for the messages before that number (``seq``)."""
        chat = find_chat(self._store, platform_of(request), request.match_info["chat"])
        before = request.query.get("before")
        if before is not None:
            return web.json_response(self._page_data.older(chat, before=int(before)))
        return web.json_response({"mark": self._bus.mark(), **self._page_data.transcript(chat, limit=PIECE)})

    async def _webhooks(self, request: web.Request) -> web.Response:
        """Each attempt to deliver an update or an interaction, with its body and the answer."""
        found = self._store.requests.webhooks(platform_of(request), ref=request.match_info["ref"], limit=20)
        return web.json_response({"attempts": found})

    async def _why(self, request: web.Request) -> web.Response:
        """Why a message has no answer: ``{"why": {state, reason, until}}``, as ``emulator why`` says it, or null."""
        place = request.match_info
        found = await self._config.why(self._account or place["platform"], place["chat"], place["message"])
        return web.json_response({"why": found})

    async def _file(self, request: web.Request) -> web.Response:
        return page_files.serve(self._store.files, request.match_info["file"])

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events, named as in :class:`.bus.LiveEvent`; a comment every 15 s.

        A reader that names the last event that it got (``Last-Event-ID``, or ``?after=``) gets all later ones first,
        or ``reset`` if some are gone: it then reads its data again.
        """
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        last = request.headers.get("Last-Event-ID") or request.query.get("after")
        async with self._bus.subscribe() as queue:
            missed = self._bus.missed(last) if last else []
            await response.prepare(request)
            await response.write(b"retry: 1000\n\n")
            if missed is None:
                await response.write(f"id: {self._bus.mark()}\nevent: reset\ndata: {{}}\n\n".encode())
            for event in missed or ():
                await response.write(self._frame(event))
            while True:
                try:
                    news = await asyncio.wait_for(queue.get(), PING_S)
                except TimeoutError:
                    await response.write(b": still here\n\n")
                    continue
                if news is None:
                    return response
                await response.write(self._frame(news))

    def _frame(self, event: LiveEvent) -> bytes:
        data = json.dumps(self._full(event), ensure_ascii=False)
        return f"id: {self._bus.mark(event)}\nevent: {event.name}\ndata: {data}\n\n".encode()

    def _full(self, event: LiveEvent) -> Mapping[str, Any]:
        """The event's data; for a message, its current state."""
        if event.name != "message":
            return event.data
        found = self._page_data.find(event.data["platform"], event.data["chat"], event.data["id"])
        return found or event.data


@cache
def _template() -> str:
    """The page as one file: its frame with the style and the scripts inside."""
    style = (PAGE / "chat.css").read_text(encoding="utf-8")
    script = "\n".join((PAGE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    frame = (PAGE / "chat.html").read_text(encoding="utf-8")
    return frame.replace("{{STYLE}}", style).replace("{{SCRIPT}}", script)
