"""What people do on the chat page: write, send files, edit, delete, react, press buttons, open chats and topics.

Each action is a POST below ``/chat/{platform}/``. It answers before the delivery to the bot ends; a refusal is a 400 or
404 with ``{"error": sentence}``.
"""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from emulator.platforms import page_files
from emulator.platforms.config import Clock
from emulator.platforms.errors import ActionRefused
from emulator.platforms.fakes import PlatformFake
from emulator.platforms.request_parts import EITHER, find_chat, platform_of, read_json, text
from emulator.platforms.store import PlatformStore


class PageActions:
    """The handlers of the actions."""

    def __init__(self, clock: Clock, store: PlatformStore, fakes: Mapping[str, PlatformFake]) -> None:
        self._clock, self._store, self._fakes = clock, store, fakes

    def routes(self, base: str) -> list[web.AbstractRouteDef]:
        """The routes below *base*, e.g. ``/chat``; those that one platform alone has, too."""
        either = f"{base}/{EITHER}"
        return [
            web.post(either + "/say", self._say),
            web.post(either + "/press", self._press),
            web.post(either + "/people", self.add_person),
            web.post(either + "/chats", self.create_chat),
            web.post(either + "/members", self._join),
            web.post(either + "/block", self._block),
            web.post(either + "/edit", self._edit),
            web.post(either + "/delete", self._delete),
            web.post(either + "/react", self._react),
            *(route for name, fake in self._fakes.items() for route in fake.page_routes(f"{base}/{name}")),
        ]

    async def _say(self, request: web.Request) -> web.Response:
        """A person writes or sends files."""
        return web.json_response(self._fake(request).say(await self._read_said(request)), status=201)

    async def _read_said(self, request: web.Request) -> dict[str, Any]:
        if request.content_type == "multipart/form-data":
            return await page_files.read_upload(request, self._store.files, now_ms=self._clock.now_ms())
        return {**await read_json(request), "files": []}

    async def _press(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        pressed = (*_message(body), text(body, "person"), text(body, "data"))
        return web.json_response(await self._fake(request).press(*pressed, waits=False), status=201)

    async def _edit(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        edited = (*_message(body), text(body, "text"))
        done = self._fake(request).people.edit(*edited, person_id=text(body, "person"))
        return web.json_response(done, status=201)

    async def _delete(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        done = self._fake(request).people.delete(*_message(body), person_id=text(body, "person"))
        return web.json_response(done, status=201)

    async def _react(self, request: web.Request) -> web.Response:
        """A person reacts with ``emoji``; ``remove`` takes it back."""
        body = await read_json(request)
        reacted = (*_message(body), text(body, "person"), text(body, "emoji"))
        done = self._fake(request).people.react(*reacted, is_removed=body.get("remove") is True)
        return web.json_response(done, status=201)

    async def add_person(self, request: web.Request) -> web.Response:
        """A new person comes; also ``POST /control/{platform}/people``."""
        name = text(await read_json(request), "name").strip()
        if not name:
            raise ActionRefused("a person needs a name")
        person = self._fake(request).people.add_newcomer(name)
        return web.json_response({"id": person.id, "name": person.name, "username": person.username}, status=201)

    async def create_chat(self, request: web.Request) -> web.Response:
        """A new group or channel; also ``POST /control/{platform}/chats``."""
        body = await read_json(request)
        title, members = text(body, "title"), [str(member) for member in body.get("members") or []]
        done = self._fake(request).people.create_chat(title, members, is_super=body.get("super") is True)
        return web.json_response(done, status=201)

    async def _block(self, request: web.Request) -> web.Response:
        """A person blocks the bot, or a group removes it; ``blocked: false`` takes it back."""
        body = await read_json(request)
        chat = find_chat(self._store, platform_of(request), text(body, "chat"))
        is_blocked = body.get("blocked") is not False
        return web.json_response(self._fake(request).people.block(chat.id, is_blocked=is_blocked), status=201)

    async def _join(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        done = self._fake(request).people.join(text(body, "chat"), text(body, "person"))
        return web.json_response(done, status=201)

    def _fake(self, request: web.Request) -> PlatformFake:
        return self._fakes[platform_of(request)]


def _message(body: dict[str, Any]) -> tuple[str, str]:
    return text(body, "chat"), text(body, "message")
