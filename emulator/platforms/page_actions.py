"""What people do on the chat page: write, send files, edit, delete, react, press buttons, open chats and topics.

Each action is a POST below ``/chat/{platform}/``. It answers before the delivery to the bot ends; a refusal is a 400 or
404 with ``{"error": sentence}``.
"""

from typing import Any

from aiohttp import web

from emulator.platforms import page_files
from emulator.platforms.config import Clock
from emulator.platforms.discord.interactions import Interactions
from emulator.platforms.discord.page_actions import DiscordActions
from emulator.platforms.discord.people import DiscordPeople
from emulator.platforms.discord.uses import DiscordUses
from emulator.platforms.errors import ActionRefused
from emulator.platforms.request_parts import EITHER, find_chat, optional, platform_of, read_json, text
from emulator.platforms.store import PlatformStore
from emulator.platforms.telegram.chat_actions import TelegramChatActions
from emulator.platforms.telegram.people import TelegramPeople


class PageActions:
    """The handlers of the actions."""

    def __init__(
        self,
        clock: Clock,
        store: PlatformStore,
        telegram_people: TelegramPeople,
        chat_actions: TelegramChatActions,
        interactions: Interactions,
        discord_people: DiscordPeople,
        discord_uses: DiscordUses,
    ) -> None:
        self._clock, self._store, self._telegram_people = clock, store, telegram_people
        self._chat_actions, self._interactions, self._discord_people = chat_actions, interactions, discord_people
        self._discord = DiscordActions(clock, store, interactions, discord_people, discord_uses)

    def routes(self, base: str) -> list[web.AbstractRouteDef]:
        """The routes below *base*, e.g. ``/chat``."""
        either, telegram = f"{base}/{EITHER}", f"{base}/{{platform:telegram}}"
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
            *self._discord.routes(f"{base}/{{platform:discord}}"),
            web.post(telegram + "/topics", self._create_topic),
            web.post(telegram + "/stop", self._stop),
            web.post(telegram + "/vote", self._vote),
            web.post(telegram + "/admin", self._make_admin),
        ]

    async def _say(self, request: web.Request) -> web.Response:
        """A person writes or sends files; on Discord, a ``command`` with ``options``, or plain text."""
        body = await self._read_said(request)
        if platform_of(request) == "discord":
            return self._discord.say(body)
        person, said = text(body, "person"), text(body, "text")
        where: dict[str, Any] = {
            "chat_id": optional(body, "chat"),
            "thread": _number(body, "thread"),
            "reply_to": optional(body, "reply_to"),
        }
        if files := body.get("files"):
            done = self._chat_actions.send_files(person, said, files, **where)
            return web.json_response({**done[0], "messages": done}, status=201)
        return web.json_response(self._telegram_people.say(person, said, **where), status=201)

    async def _read_said(self, request: web.Request) -> dict[str, Any]:
        if request.content_type == "multipart/form-data":
            return await page_files.read_upload(request, self._store.files, now_ms=self._clock.now_ms())
        return {**await read_json(request), "files": []}

    async def _press(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        pressed = (*_message(body), text(body, "person"), text(body, "data"))
        if platform_of(request) == "telegram":
            return web.json_response(self._telegram_people.press(*pressed), status=201)
        interaction = self._discord_people.press(*pressed)
        return web.json_response(self._interactions.rows.delivery(interaction), status=201)

    async def _edit(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        person = text(body, "person")
        if platform_of(request) == "discord":
            edited = self._discord_people.edit(*_message(body), text(body, "text"), person_id=person)
            return web.json_response({"message": edited.id}, status=201)
        done = self._telegram_people.edit(*_message(body), text(body, "text"), person_id=person)
        return web.json_response(done, status=201)

    async def _delete(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        if platform_of(request) == "discord":
            self._discord_people.delete(*_message(body), person_id=text(body, "person"))
            return web.json_response({"message": body["message"]}, status=201)
        return web.json_response(self._chat_actions.delete(*_message(body), text(body, "person")), status=201)

    async def _react(self, request: web.Request) -> web.Response:
        """On Telegram, ``emoji`` replaces the choice before, and "" takes it back; on Discord, ``remove`` does."""
        body = await read_json(request)
        if platform_of(request) == "discord":
            is_removed = body.get("remove") is True
            reacted = (*_message(body), text(body, "person"), text(body, "emoji"))
            return web.json_response(
                {"changed": self._discord_people.react(*reacted, is_removed=is_removed)}, status=201
            )
        done = self._telegram_people.react(*_message(body), text(body, "person"), text(body, "emoji"))
        return web.json_response(done, status=201)

    async def _stop(self, request: web.Request) -> web.Response:
        """The person presses the stop button of the draft ``draft``."""
        body = await read_json(request)
        done = self._chat_actions.stop_draft(text(body, "chat"), int(body.get("draft") or 0), _number(body, "thread"))
        return web.json_response(done, status=201)

    async def _vote(self, request: web.Request) -> web.Response:
        """A person chooses ``options`` of a poll, by number; an empty list takes the vote back."""
        body = await read_json(request)
        options = [int(each) for each in body.get("options") or []]
        return web.json_response(self._chat_actions.vote(*_message(body), text(body, "person"), options), status=201)

    async def _make_admin(self, request: web.Request) -> web.Response:
        """The owner of a group makes the bot an administrator; ``admin: false`` takes it back."""
        body = await read_json(request)
        is_admin = body.get("admin") is not False
        return web.json_response(self._chat_actions.make_admin(text(body, "chat"), is_admin=is_admin), status=201)

    async def _create_topic(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        return web.json_response(self._chat_actions.create_topic(text(body, "chat"), text(body, "name")), status=201)

    async def add_person(self, request: web.Request) -> web.Response:
        """A new person comes; also ``POST /control/{platform}/people``."""
        name = text(await read_json(request), "name").strip()
        if not name:
            raise ActionRefused("a person needs a name")
        people = self._telegram_people if platform_of(request) == "telegram" else self._discord_people
        person = people.add_newcomer(name)
        return web.json_response({"id": person.id, "name": person.name, "username": person.username}, status=201)

    async def create_chat(self, request: web.Request) -> web.Response:
        """A new group or channel; also ``POST /control/{platform}/chats``."""
        body = await read_json(request)
        title, members = text(body, "title"), [str(member) for member in body.get("members") or []]
        if platform_of(request) == "discord":
            return web.json_response({"chat": self._discord_people.create_channel(title, members).id}, status=201)
        done = self._telegram_people.create_group(title, members, is_super=body.get("super") is True)
        return web.json_response(done, status=201)

    async def _block(self, request: web.Request) -> web.Response:
        """A person blocks the bot, or a group removes it; ``blocked: false`` takes it back."""
        body = await read_json(request)
        chat, is_blocked = (
            find_chat(self._store, platform_of(request), text(body, "chat")),
            body.get("blocked") is not False,
        )
        people = self._telegram_people if chat.platform == "telegram" else self._discord_people
        people.block(chat.id, is_blocked=is_blocked)
        return web.json_response({"chat": chat.id, "blocked": is_blocked}, status=201)

    async def _join(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        chat, person = text(body, "chat"), text(body, "person")
        people = self._telegram_people if platform_of(request) == "telegram" else self._discord_people
        people.join(chat, person)
        return web.json_response({"chat": chat, "person": person}, status=201)


def _message(body: dict[str, Any]) -> tuple[str, str]:
    return text(body, "chat"), text(body, "message")


def _number(body: dict[str, Any], key: str) -> int | None:
    value = body.get(key)
    return None if value in (None, "") else int(str(value))
