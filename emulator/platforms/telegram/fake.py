"""The fake Telegram of one account: its Bot API, its people, and what tests and the chat page have of it alone.

Below ``/control/telegram``, where a new number also creates a person::

    POST /users/{person}/message      {text, chat?, thread?, reply_to?}   a message creates an unknown group
    POST /chats/{chat}/messages/{message}/edit    {text}
    POST /chats/{chat}/messages/{message}/react   {person, emoji}
    POST /chats/{chat}/migrate                       a group becomes a supergroup
    POST /chats/{chat}/topics/{thread}/close        nobody but admins can write there; the bot is none
    POST /users/{person}/bots         {name, username}   a bot that the person lets this bot manage
    POST /updates, /updates/{update}/redeliver       deliver any update; deliver one again
    GET  /webhook                                    the webhook, and the state of every update
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from emulator.platforms.bus import EventBus
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.errors import ActionRefused
from emulator.platforms.further_accounts import FurtherAccounts, is_name
from emulator.platforms.request_parts import number, optional, read_json, text
from emulator.platforms.store import PlatformStore
from emulator.platforms.telegram.api import FakeTelegram
from emulator.platforms.telegram.bot import add_people, chat_then, telegram_bot
from emulator.platforms.telegram.chat_actions import TelegramChatActions
from emulator.platforms.telegram.people import TelegramPeople
from shared.channels.telegram.webhooks import UPDATES
from shared.conversation.routing.commands import MENU
from shared.core.errors import ConfigInvalid

__all__ = ["add_people", "bot_id", "chat_then", "fake"]

_SUGGESTED = re.compile(r"(_[0-9a-f]{4})?_?bot$")  # what Postroom puts behind the word of the account


def fake(config: PlatformsConfig, store: PlatformStore, bus: EventBus, further: FurtherAccounts) -> "TelegramPlatform":
    return TelegramPlatform(config, store, bus, further)


def bot_id(store: PlatformStore) -> str:
    return str(telegram_bot(store).id)


class TelegramPlatform:
    """The parts of the fake, and their routes; a ``PlatformFake``."""

    can = ("files", "reply", "edit", "delete", "react", "topics", "admins", "clear", "ways", "entities")

    def __init__(self, config: PlatformsConfig, store: PlatformStore, bus: EventBus, further: FurtherAccounts) -> None:
        self._config, self._further, self._bot = config, further, telegram_bot(store)
        self.mention = f"@{self._bot.username}"
        self.api = FakeTelegram(config, store, bus, self._bot)
        self.faults, self._updates = self.api.faults, self.api.updates
        self.people = TelegramPeople(config, store, bus, self.api.objects, self._updates)
        self._actions = TelegramChatActions(config.clock, store, bus, self.people, self.api.objects, self._updates)
        self.api.bot_of = self._bot_of
        self.api.managed.adopt = self._adopt
        self.people.make_bot = self.api.managed.create
        self._url = ""

    def environment(self) -> dict[str, str]:
        return {
            "TELEGRAM_API_BASE": f"{self._url}/telegram",
            "TELEGRAM_BOT_TOKEN": self._bot.token,
            "TELEGRAM_BOT_USERNAME": self._bot.username,
            "TELEGRAM_WEBHOOK_SECRET": self._bot.webhook_secret,
        }

    def begin(self, url: str) -> None:
        self._url = url
        self._updates.start()

    async def stop(self) -> None:
        """See ``PlatformFake.stop``; updates that are not delivered stay in the file."""
        await self._updates.stop()

    async def register(self) -> None:
        """Set the webhook. See ``PlatformFake.register``."""
        url = self._config.webhook_urls["telegram"]
        webhook: Mapping[str, object] = {
            "url": url,
            "secret_token": self._bot.webhook_secret,
            "allowed_updates": list(UPDATES),
        }
        answer = await self.api.call("setWebhook", webhook)
        if answer.get("error_code") == 429:
            await self._config.clock.sleep(1000)
            answer = await self.api.call("setWebhook", webhook)
        if not answer["ok"]:
            raise ConfigInvalid(f"Telegram refused {url}: {answer['description']}")

    async def offer_commands(self) -> None:
        listed = [{"command": name, "description": words} for name, words in MENU.items()]
        known = await self.api.call("getMyCommands", {})
        if known.get("result") == []:
            await self.api.call("setMyCommands", {"commands": listed})

    def deliveries(self, chat: str | None) -> list[dict[str, Any]]:
        return self._updates.queue.deliveries(chat=chat)

    def send_again(self, ref: str) -> bool:
        return self._updates.redeliver(int(ref))

    def say(self, body: dict[str, Any]) -> dict[str, Any]:
        person, said = text(body, "person"), text(body, "text")
        where: dict[str, Any] = {
            "chat_id": optional(body, "chat"),
            "thread": number(body, "thread"),
            "reply_to": optional(body, "reply_to"),
        }
        if files := body.get("files"):
            done = self._actions.send_files(person, said, files, **where)
            return {**done[0], "messages": done}
        return self.people.say(person, said, **where)

    async def press(self, chat_id: str, message_id: str, person_id: str, data: str, *, waits: bool) -> dict[str, Any]:
        return self.people.press(chat_id, message_id, person_id, data)

    # bots that this one manages

    def _accounts(self) -> "list[TelegramPlatform]":
        """The fakes of the further accounts; all bots of the platform share one address."""
        return self._further.fakes("telegram")

    def _bot_of(self, token: str) -> FakeTelegram | None:
        """The Bot API of the bot with this token."""
        return next((each.api for each in self._accounts() if each.api.token == token), None)

    def _adopt(self, bot_number: int, bot: Mapping[str, Any]) -> None:
        """Give a bot that a person has made chats of its own, or its new token; Postroom registers its webhook."""
        word = _SUGGESTED.sub("", bot["username"].lower())
        name = f"telegram.{word}" if is_name(f"telegram.{word}") else f"telegram.bot{bot_number}"
        known = next((each.api for each in self._accounts() if each.api.objects.me["id"] == bot_number), None)
        if known is None and name in self._further.names:
            raise ActionRefused(f"there is a bot of the account {name} already")
        own = {"id": bot_number, "token": bot["token"].partition(":")[2]}
        self._further.keep(
            name, {"telegram.bot": json.dumps(own), "bot.name": bot["name"], "bot.username": bot["username"]}
        )
        if known is None:
            self._further.open(name)
        else:
            known.renew(bot["token"])

    # the control API

    def routes(self) -> list[web.AbstractRouteDef]:
        base = "/control/telegram"
        message = base + "/chats/{chat}/messages/{message}"
        return [
            *self.api.routes(),
            web.post(base + "/users/{person}/message", self._say),
            web.post(base + "/users/{person}/bots", self._give_bot),
            web.post(base + "/updates", self._inject),
            web.post(base + "/updates/{update}/redeliver", self._redeliver),
            web.get(base + "/webhook", self._webhook),
            web.post(message + "/edit", self._edit),
            web.post(message + "/react", self._react),
            web.post(base + "/chats/{chat}/migrate", self._migrate),
            web.post(base + "/chats/{chat}/topics/{thread:[0-9]+}/close", self._close_topic),
        ]

    async def _say(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        done = self.people.say(
            request.match_info["person"],
            text(body, "text"),
            chat_id=optional(body, "chat"),
            thread=body.get("thread"),
            reply_to=optional(body, "reply_to"),
        )
        return web.json_response(done, status=201)

    async def _give_bot(self, request: web.Request) -> web.Response:
        """A person confirms a new bot that this bot manages."""
        body, person = await read_json(request), request.match_info["person"]
        made = self.api.managed.create(person, text(body, "name"), text(body, "username"))
        return web.json_response(made, status=201)

    async def _inject(self, request: web.Request) -> web.Response:
        return web.json_response(self.people.inject(await read_json(request)), status=201)

    async def _redeliver(self, request: web.Request) -> web.Response:
        update_id = int(request.match_info["update"])
        if not self._updates.redeliver(update_id):
            raise web.HTTPNotFound(text=f"there is no settled update {update_id}")
        return web.json_response(self._updates.queue.delivery(update_id), status=201)

    async def _webhook(self, request: web.Request) -> web.Response:
        updates = self._updates
        webhook = {
            "url": updates.webhook.url,
            "max_connections": updates.webhook.max_connections,
            "allowed_updates": list(updates.webhook.allowed_updates),
            "pending": updates.queue.pending(),
        }
        return web.json_response({**webhook, "deliveries": updates.queue.deliveries(chat=request.query.get("chat"))})

    async def _edit(self, request: web.Request) -> web.Response:
        body, match = await read_json(request), request.match_info
        done = self.people.edit(match["chat"], match["message"], text(body, "text"))
        return web.json_response(done, status=201)

    async def _react(self, request: web.Request) -> web.Response:
        body, match = await read_json(request), request.match_info
        done = self.people.react(match["chat"], match["message"], text(body, "person"), text(body, "emoji"))
        return web.json_response(done, status=201)

    async def _migrate(self, request: web.Request) -> web.Response:
        return web.json_response(self.people.migrate(request.match_info["chat"]), status=201)

    async def _close_topic(self, request: web.Request) -> web.Response:
        place = request.match_info
        return web.json_response(self.people.close_topic(place["chat"], int(place["thread"])))

    # the chat page

    def page_routes(self, base: str) -> list[web.AbstractRouteDef]:
        return [
            web.post(base + "/topics", self._create_topic),
            web.post(base + "/stop", self._stop),
            web.post(base + "/vote", self._vote),
            web.post(base + "/admin", self._make_admin),
        ]

    async def _create_topic(self, request: web.Request) -> web.Response:
        body = await read_json(request)
        return web.json_response(self._actions.create_topic(text(body, "chat"), text(body, "name")), status=201)

    async def _stop(self, request: web.Request) -> web.Response:
        """The person presses the stop button of the draft ``draft``."""
        body = await read_json(request)
        done = self._actions.stop_draft(text(body, "chat"), int(body.get("draft") or 0), number(body, "thread"))
        return web.json_response(done, status=201)

    async def _vote(self, request: web.Request) -> web.Response:
        """A person chooses ``options`` of a poll, by number; an empty list takes the vote back."""
        body = await read_json(request)
        options = [int(each) for each in body.get("options") or []]
        place = (text(body, "chat"), text(body, "message"), text(body, "person"))
        return web.json_response(self._actions.vote(*place, options), status=201)

    async def _make_admin(self, request: web.Request) -> web.Response:
        """The owner of a group makes the bot an administrator; ``admin: false`` takes it back."""
        body = await read_json(request)
        is_admin = body.get("admin") is not False
        return web.json_response(self._actions.make_admin(text(body, "chat"), is_admin=is_admin), status=201)
