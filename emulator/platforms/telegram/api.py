"""A fake Telegram Bot API: the methods that a bot needs, with Telegram's rules, limits and error texts.

This module handles every call; :mod:`.messages` and :mod:`.setup` implement the methods. Unknown methods answer 404.
It delivers to plain HTTP addresses, as a self-hosted server in local mode does.

Source: https://core.telegram.org/bots/api; error wording after the open source of the Bot API server (``Client.cpp``).
"""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from emulator.base.faults import Fault, Faults
from emulator.platforms.bus import EventBus
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.request_parts import hang_up
from emulator.platforms.store import PlatformStore
from emulator.platforms.telegram import schema
from emulator.platforms.telegram.bot import TelegramBot
from emulator.platforms.telegram.calls import (
    ApiMethod,
    MethodResult,
    Params,
    TelegramError,
    error_envelope,
    read_params,
    respond,
    uploads_of,
)
from emulator.platforms.telegram.files import TelegramFiles
from emulator.platforms.telegram.flood import FloodControl
from emulator.platforms.telegram.methods.chats import TelegramChats
from emulator.platforms.telegram.methods.content_messages import TelegramContentMessages
from emulator.platforms.telegram.methods.copies import TelegramCopies
from emulator.platforms.telegram.methods.drafts import TelegramDrafts
from emulator.platforms.telegram.methods.managed import ManagedBots
from emulator.platforms.telegram.methods.media_messages import TelegramMediaMessages
from emulator.platforms.telegram.methods.members import TelegramMembers
from emulator.platforms.telegram.methods.messages import TelegramMessages
from emulator.platforms.telegram.methods.pins import TelegramPins
from emulator.platforms.telegram.methods.profile import TelegramProfile
from emulator.platforms.telegram.methods.sender import TelegramSender
from emulator.platforms.telegram.methods.setup import BOT_RIGHTS, TelegramSetup
from emulator.platforms.telegram.methods.topics import TelegramTopics
from emulator.platforms.telegram.objects import TelegramObjects
from emulator.platforms.telegram.places import TelegramPlaces
from emulator.platforms.telegram.updates import UpdateDelivery
from shared.core import logs

ASK = "Ask for it in an issue of Postroom, and say what your agent does with it."


class FakeTelegram:
    """The Bot API of one bot."""

    def __init__(self, config: PlatformsConfig, store: PlatformStore, bus: EventBus, bot: TelegramBot) -> None:
        self._store, self._bus, self._bot, self._clock = store, bus, bot, config.clock
        self.bot_of: Callable[[str], FakeTelegram | None] = lambda token: None  # a managed bot with chats of its own
        self.faults = config.faults.get("telegram") or Faults("telegram", self._clock.now_ms)
        self.files = TelegramFiles(store, bot)
        self.objects = TelegramObjects(store, bot, self.files)
        self.updates = UpdateDelivery(config, store, bus, self._from_webhook)
        places = TelegramPlaces(store, FloodControl(config, store))
        self.managed = ManagedBots(store, self.objects, self.updates)
        sender = TelegramSender(self._clock, store, bus, bot, self.objects, places)
        parts = (
            TelegramSetup(config, store, self.objects, self.updates),
            TelegramProfile(store, self.objects),
            TelegramMessages(sender, self.updates.queue),
            TelegramMediaMessages(sender, self.files),
            TelegramContentMessages(sender, self.updates),
            TelegramCopies(sender),
            TelegramChats(store, self.objects, places),
            TelegramMembers(sender, self.updates),
            TelegramPins(sender),
            TelegramTopics(sender),
            TelegramDrafts(bus, places),
            self.managed,
            self.files,
        )
        methods = [method for part in parts for method in part.methods()]
        self._methods: dict[str, ApiMethod] = {method.name.lower(): method for method in methods}

    @property
    def method_names(self) -> list[str]:
        """The methods that this fake has."""
        return sorted(method.name for method in self._methods.values())

    @property
    def token(self) -> str:
        """The token of the bot."""
        return self._bot.token

    def renew(self, token: str) -> None:
        """Take the bot's new token; the old one works no more."""
        self._bot = replace(self._bot, token=token)

    def routes(self) -> list[web.AbstractRouteDef]:
        return [
            web.route("*", "/telegram/bot{token}/{method}", self.handle),
            web.get("/telegram/file/bot{token}/{path:.+}", self._download),
        ]

    async def _download(self, request: web.Request) -> web.StreamResponse:
        """A file at the ``file_path`` of getFile."""
        if request.match_info["token"] != self._bot.token:
            return respond(TelegramError(401, "Unauthorized").envelope())
        return self.files.serve(request.match_info["path"]) or respond(TelegramError(404, "Not Found").envelope())

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One call of the API: check the token, apply a fault, run the method, answer with the envelope."""
        token, name = request.match_info["token"], request.match_info["method"]
        if not re.fullmatch(r"\d{1,16}:[A-Za-z0-9_-]{1,80}", token):
            return respond(TelegramError(404, "Not Found").envelope())
        if token != self._bot.token:
            other = self.bot_of(token)
            return respond(self._as_managed(token, name)) if other is None else await other.handle(request)
        try:
            params = await read_params(request)
        except TelegramError as refusal:
            return respond(refusal.envelope())
        chat = str(params.get("chat_id")) if params.get("chat_id") is not None else None
        fault = self.faults.take(name, chat)
        if fault is not None and fault.kind == "delay":
            await self._clock.sleep(fault.delay_ms)
        if fault is not None and fault.kind in ("status", "drop"):
            envelope = error_envelope(fault) if fault.kind == "status" else {}
            self._log(name, params, envelope, fault, 0.0)
            return respond(envelope) if envelope else hang_up(request)
        envelope = await self.call(name, params, fault=fault)
        return hang_up(request) if fault is not None and fault.kind == "accept_then_drop" else respond(envelope)

    def _as_managed(self, token: str, name: str) -> dict[str, Any]:
        """A managed bot has no chats on this fake: its token only tells what bot it is."""
        user = self.managed.by_token(token)
        if user is None:
            return TelegramError(401, "Unauthorized").envelope()
        if name.lower() != "getme":
            return TelegramError(400, "Bad Request: a managed bot of the fake Telegram answers getMe alone").envelope()
        return MethodResult({**user, **BOT_RIGHTS}).envelope()

    async def call(self, name: str, params: Params, *, fault: Fault | None = None) -> dict[str, Any]:
        """Run one method and log it; returns the envelope that Telegram would answer with."""
        started = time.perf_counter()
        method = self._methods.get(name.lower())
        try:
            if method is None:
                logs.get().warning("telegram.method_unknown", method=name[:64])
                raise TelegramError(404, f"Not Found: {self._why_missing(name)}")
            for key in set(schema.unknown(name, params)) - set(uploads_of(params)):  # a file may have any name
                logs.get().warning("telegram.parameter_unknown", method=method.name, parameter=key[:64])
            if (problem := schema.problem_of_call(name, params)) is not None:
                raise TelegramError(400, f"Bad Request: {problem}")
            envelope = (await method.run(params)).envelope()
        except TelegramError as refusal:
            envelope = refusal.envelope()
        self._log(method.name if method else name, params, envelope, fault, (time.perf_counter() - started) * 1000)
        return envelope

    def _why_missing(self, name: str) -> str:
        """A method that Telegram has and this fake lacks is told from one that nobody has."""
        known = schema.name_of(name)
        if known is None:
            return "method not found"
        return f"{known} is not in this fake. {ASK} It has: {', '.join(self.method_names)}"

    async def _from_webhook(self, name: str, params: Params) -> None:
        await self.call(name, params)

    def _log(self, name: str, params: Params, envelope: dict[str, Any], fault: Fault | None, took_ms: float) -> None:
        status = 200 if envelope.get("ok") else int(envelope.get("error_code", 0))
        chat = str(params["chat_id"]) if "chat_id" in params else None
        if chat is None and "callback_query_id" in params:
            pressed = self.updates.queue.find_press(str(params["callback_query_id"]))
            chat = pressed.chat if pressed else None
        call = self._store.requests.add_call(
            "telegram",
            at_ms=self._clock.now_ms(),
            method=name,
            chat=chat,
            status=status,
            params=dict(params),
            answer=envelope,
            fault=fault.kind if fault else None,
            took_ms=took_ms,
        )
        self._bus.publish("call", call)
