"""A fake Telegram Bot API: the methods that a bot needs, with Telegram's rules, limits and words.

Source: https://core.telegram.org/bots/api; error wording after the open source of the Bot API server (``Client.cpp``).
Like a self-hosted server in local mode it delivers to plain HTTP addresses. Methods that are not here answer 404.
"""

import json
import re
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from shared import logs

from . import markup
from .bus import Bus
from .cast import BOT_NAME, BOT_USERNAME, TelegramBot
from .config import PlatformsConfig
from .faults import Fault, Faults
from .store import Chat, Message, Person, Store
from .telegram_calls import (
    ApiError,
    Done,
    Params,
    failed,
    hang_up,
    integer,
    is_true,
    keyboard,
    nested,
    read_params,
    respond,
)
from .telegram_queue import KINDS
from .telegram_updates import Updates, Webhook

MAX_TEXT = 4096  # code points, after parsing
MAX_RAW_BYTES = 32_768  # before parsing
TYPING_MS = 5_000
QUERY_LIFE_MS = 150_000  # how long a button press waits for its answer
_ACTIONS = (
    "typing upload_photo record_video upload_video record_voice upload_voice upload_document choose_sticker"
    " find_location record_video_note upload_video_note"
)
_REACTIONS = (
    "❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤\u200d🔥 🌚 🌭 💯 🤣"
    " ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨\u200d💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃"
    " 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷\u200d♂ 🤷 🤷\u200d♀ 😡"
)
ACTIONS = frozenset(_ACTIONS.split())
REACTIONS = frozenset(_REACTIONS.split())


@dataclass(frozen=True, slots=True)
class Method:
    """One method of the API: its name as documented, what does it, and the parameters that it knows."""

    name: str
    run: Callable[[Params], Awaitable[Done]]
    known: frozenset[str]


@dataclass(slots=True)
class _Recent:
    """When the last sends to each chat were, for the flood limit."""

    at_ms: dict[str, deque[int]] = field(default_factory=lambda: defaultdict(deque))


@dataclass(frozen=True, slots=True)
class _Pressed:
    """When and where a button was pressed, and by whom."""

    created_ms: int
    chat: str
    person: str


class Telegram:
    """The Bot API of one bot, and the people who speak to it."""

    def __init__(self, config: PlatformsConfig, store: Store, bus: Bus, bot: TelegramBot) -> None:
        self._config, self._store, self._bus, self._bot = config, store, bus, bot
        self._clock = config.clock
        self.faults = Faults()
        self.updates = Updates(config, store, bus, self._from_webhook)
        self._recent = _Recent()
        self._next_webhook_ms = 0
        text = "parse_mode entities link_preview_options reply_markup business_connection_id"
        sends = (
            "chat_id message_thread_id direct_messages_topic_id disable_notification protect_content"
            " allow_paid_broadcast message_effect_id suggested_post_parameters reply_parameters reply_to_message_id"
            f" ephemeral_message_parameters {text}"
        )
        self._methods = {
            name.lower(): Method(name, run, frozenset(known.split()))
            for name, run, known in (
                ("getMe", self._get_me, ""),
                (
                    "setWebhook",
                    self._set_webhook,
                    "url certificate ip_address max_connections allowed_updates drop_pending_updates secret_token",
                ),
                ("deleteWebhook", self._delete_webhook, "drop_pending_updates"),
                ("getWebhookInfo", self._get_webhook_info, ""),
                ("getUpdates", self._get_updates, "offset limit timeout allowed_updates"),
                ("getChat", self._get_chat, "chat_id"),
                ("sendMessage", self._send_message, f"text {sends}"),
                ("sendChatAction", self._send_chat_action, "chat_id action message_thread_id business_connection_id"),
                (
                    "editMessageText",
                    self._edit_message_text,
                    f"chat_id message_id inline_message_id text rich_message {text}",
                ),
                ("deleteMessage", self._delete_message, "chat_id message_id"),
                ("setMessageReaction", self._set_message_reaction, "chat_id message_id reaction is_big"),
                (
                    "answerCallbackQuery",
                    self._answer_callback_query,
                    "callback_query_id text show_alert url cache_time",
                ),
                ("setMyCommands", self._set_my_commands, "commands scope language_code"),
                ("getMyCommands", self._get_my_commands, "scope language_code"),
            )
        }

    # HTTP

    def routes(self) -> list[web.AbstractRouteDef]:
        return [web.route("*", "/telegram/bot{token}/{method}", self.handle)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One call of the API: token, fault, work, envelope."""
        token, name = request.match_info["token"], request.match_info["method"]
        if not re.fullmatch(r"\d{1,16}:[A-Za-z0-9_-]{1,80}", token):
            return respond(ApiError(404, "Not Found").envelope())
        if token != self._bot.token:
            return respond(ApiError(401, "Unauthorized").envelope())
        try:
            params = await read_params(request)
        except ApiError as refusal:
            return respond(refusal.envelope())
        chat = str(params.get("chat_id")) if params.get("chat_id") is not None else None
        fault = self.faults.take(name, chat)
        if fault is not None and fault.kind == "delay":
            await self._clock.sleep(fault.delay_ms)
        if fault is not None and fault.kind in ("status", "drop"):
            envelope = failed(fault) if fault.kind == "status" else {}
            self._log(name, params, envelope, fault, 0.0)
            return respond(envelope) if envelope else hang_up(request)
        envelope = await self.call(name, params, fault=fault)
        return hang_up(request) if fault is not None and fault.kind == "accept_then_drop" else respond(envelope)

    async def call(self, name: str, params: Params, *, fault: Fault | None = None) -> dict[str, Any]:
        """Do one method and log it; the envelope that Telegram would answer with."""
        started = time.perf_counter()
        method = self._methods.get(name.lower())
        try:
            if method is None:
                logs.get().warning("telegram.method_unknown", method=name[:64])
                raise ApiError(404, "Not Found: method not found")
            for key in sorted(set(params) - method.known):
                logs.get().warning("telegram.parameter_unknown", method=method.name, parameter=key[:64])
            envelope = (await method.run(params)).envelope()
        except ApiError as refusal:
            envelope = refusal.envelope()
        self._log(method.name if method else name, params, envelope, fault, (time.perf_counter() - started) * 1000)
        return envelope

    async def _from_webhook(self, name: str, params: Params) -> None:
        await self.call(name, params)

    def _log(self, name: str, params: Params, envelope: dict[str, Any], fault: Fault | None, took_ms: float) -> None:
        status = 200 if envelope.get("ok") else int(envelope.get("error_code", 0))
        shown = {key: value for key, value in params.items() if key != "secret_token"}
        chat = str(params["chat_id"]) if "chat_id" in params else None
        if chat is None and "callback_query_id" in params:
            pressed = self._pressed(params)
            chat = pressed.chat if pressed else None
        call = self._store.add_call(
            "telegram",
            at_ms=self._clock.now_ms(),
            method=name,
            chat=chat,
            status=status,
            params=shown,
            answer=envelope,
            fault=fault.kind if fault else None,
            took_ms=took_ms,
        )
        self._bus.tell("call", call)

    # the webhook

    async def _get_me(self, params: Params) -> Done:
        me = {
            "can_join_groups": True,
            "can_read_all_group_messages": not self._config.group_privacy,
            "supports_inline_queries": False,
            "can_connect_to_business": False,
            "has_main_web_app": False,
        }
        return Done({**self.me, **me})

    async def _set_webhook(self, params: Params) -> Done:
        url = str(params.get("url") or "")
        if not url:
            return await self._delete_webhook(params)
        now_ms = self._clock.now_ms()
        if now_ms < self._next_webhook_ms:
            raise ApiError(429, "Too Many Requests: retry after 1", retry_after=1)
        self._next_webhook_ms = now_ms + 1000
        secret = str(params.get("secret_token") or "")
        if len(secret) > 256:
            raise ApiError(400, "Bad Request: secret token is too long")
        if not re.fullmatch(r"[A-Za-z0-9_-]*", secret):
            raise ApiError(400, "Bad Request: secret token contains unallowed characters")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ApiError(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
        connections = integer(params.get("max_connections"), 40)
        wanted = self.updates.webhook.allowed_updates
        if params.get("allowed_updates") is not None:
            names = nested(params["allowed_updates"])
            if not isinstance(names, list):
                raise ApiError(400, "Bad Request: can't parse allowed updates JSON object")
            wanted = tuple(name for name in KINDS if name in names)
        webhook = Webhook(url, secret, min(max(connections, 1), 100), wanted)
        is_new = await self.updates.set_webhook(webhook, drop_pending=is_true(params.get("drop_pending_updates")))
        return Done(True, "Webhook was set" if is_new else "Webhook is already set")

    async def _delete_webhook(self, params: Params) -> Done:
        was_set = bool(self.updates.webhook.url)
        webhook = Webhook(allowed_updates=self.updates.webhook.allowed_updates)
        await self.updates.set_webhook(webhook, drop_pending=is_true(params.get("drop_pending_updates")))
        return Done(True, "Webhook was deleted" if was_set else "Webhook is already deleted")

    async def _get_webhook_info(self, params: Params) -> Done:
        webhook = self.updates.webhook
        info: dict[str, Any] = {
            "url": webhook.url,
            "has_custom_certificate": False,
            "pending_update_count": self.updates.queue.pending(),
        }
        if webhook.url:
            info["max_connections"] = webhook.max_connections
        if webhook.allowed_updates:
            info["allowed_updates"] = list(webhook.allowed_updates)
        if (failed := self.updates.queue.last_error()) is not None and webhook.url:
            info.update(last_error_date=failed[0] // 1000, last_error_message=failed[1])
        return Done(info)

    async def _get_updates(self, params: Params) -> Done:
        """Without long polling: it answers at once with what there is."""
        if self.updates.webhook.url:
            raise ApiError(
                409,
                "Conflict: can't use getUpdates method while webhook is active;"
                " use deleteWebhook to delete the webhook first",
            )
        limit = min(max(integer(params.get("limit"), 100), 1), 100)
        return Done(self.updates.queue.take(offset=integer(params.get("offset"), 0), limit=limit))

    # what the bot says and does

    async def _send_message(self, params: Params) -> Done:
        formatted = self._formatted(params)
        buttons = keyboard(params)
        chat = self._writable(params)
        thread = self._thread(chat, params)
        reply_to = self._reply_to(chat, params)
        self._limit(chat)
        detail: dict[str, Any] = {"entities": list(formatted.entities)}
        given = {"reply_to": reply_to, "thread": thread, "keyboard": buttons}
        detail |= {key: value for key, value in given.items() if value is not None}
        message = self._store.add_message(
            chat,
            str(self._store.next_message_id(chat)),
            author=str(self._bot.id),
            is_bot=True,
            text=formatted.text,
            detail=detail,
            now_ms=self._clock.now_ms(),
        )
        self._tell("message", message)
        return Done(self.wire(chat, message))

    async def _send_chat_action(self, params: Params) -> Done:
        action = str(params.get("action") or "")
        if action not in ACTIONS:
            raise ApiError(400, "Bad Request: wrong parameter action in request")
        chat = self._writable(params)
        self._thread(chat, params)
        self._bus.tell("typing", {"platform": "telegram", "chat": chat.id, "action": action, "for_ms": TYPING_MS})
        return Done(True)

    async def _edit_message_text(self, params: Params) -> Done:
        formatted = self._formatted(params)
        buttons = keyboard(params)
        chat = self._writable(params)
        message = self._own_message(chat, params, "edit", "edited")
        entities = list(formatted.entities)
        same = message.text == formatted.text and message.detail.get("entities") == entities
        if same and message.detail.get("keyboard") == buttons:
            raise ApiError(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are exactly the"
                " same as a current content and reply markup of the message",
            )
        self._limit(chat)
        detail = {key: value for key, value in message.detail.items() if key != "keyboard"} | {"entities": entities}
        if buttons is not None:
            detail["keyboard"] = buttons
        message = self._store.change(message, text=formatted.text, detail=detail, edited_ms=self._clock.now_ms())
        self._tell("message", message)
        return Done(self.wire(chat, message))

    async def _delete_message(self, params: Params) -> Done:
        chat = self._writable(params)
        message = self._own_message(chat, params, "delete", "deleted")
        self._store.delete(message, now_ms=self._clock.now_ms())
        self._bus.tell("chat", {"platform": "telegram", "chat": chat.id})
        return Done(True)

    async def _set_message_reaction(self, params: Params) -> Done:
        chat = self._writable(params)
        message = self._store.message(chat, str(integer(params.get("message_id"), 0)))
        if message is None:
            raise ApiError(400, "Bad Request: message to react not found")
        reactions = nested(params["reaction"]) if params.get("reaction") is not None else []
        if not isinstance(reactions, list) or not all(isinstance(reaction, dict) for reaction in reactions):
            raise ApiError(400, "Bad Request: can't parse reaction types JSON object")
        if len(reactions) > 1:
            raise ApiError(400, "Bad Request: REACTIONS_TOO_MANY")
        emoji = [reaction.get("emoji") for reaction in reactions if reaction.get("type") == "emoji"]
        if len(emoji) != len(reactions) or not REACTIONS.issuperset(emoji):
            raise ApiError(400, "Bad Request: REACTION_INVALID")
        self._tell(
            "message", self._store.change(message, detail={**message.detail, "reactions": emoji}, edited_ms=None)
        )
        return Done(True)

    async def _answer_callback_query(self, params: Params) -> Done:
        pressed = self._pressed(params)
        if pressed is None or self._clock.now_ms() - pressed.created_ms > QUERY_LIFE_MS:
            raise ApiError(400, "Bad Request: query is too old and response timeout expired or query ID is invalid")
        text = str(params.get("text") or "")
        if len(text) > 200:
            raise ApiError(400, "Bad Request: MESSAGE_TOO_LONG")
        if text:
            news = {"platform": "telegram", "chat": pressed.chat, "person": pressed.person, "text": text}
            self._bus.tell("notice", {**news, "is_alert": is_true(params.get("show_alert"))})
        return Done(True)

    def _pressed(self, params: Params) -> "_Pressed | None":
        row = self._store.conn.execute(
            "SELECT created_ms, chat, json_extract(body, '$.callback_query.from.id') FROM updates"
            " WHERE kind = 'callback_query' AND json_extract(body, '$.callback_query.id') = ?",
            (str(params.get("callback_query_id")),),
        ).fetchone()
        return _Pressed(row[0], row[1], str(row[2])) if row else None

    async def _get_chat(self, params: Params) -> Done:
        return Done(self.wire_chat(self._known(params)))

    async def _set_my_commands(self, params: Params) -> Done:
        commands = nested(params.get("commands", "[]"))
        names = (
            [c.get("command", "") if isinstance(c, dict) else "" for c in commands]
            if isinstance(commands, list)
            else [""]
        )
        if len(names) > 100 or not all(re.fullmatch(r"[a-z0-9_]{1,32}", str(name)) for name in names):
            raise ApiError(400, "Bad Request: BOT_COMMAND_INVALID")
        self._store.put("telegram.commands", json.dumps(commands))
        return Done(True)

    async def _get_my_commands(self, params: Params) -> Done:
        return Done(json.loads(self._store.get("telegram.commands") or "[]"))

    # the rules

    def _formatted(self, params: Params) -> markup.Formatted:
        text = params.get("text")
        text = "" if text is None else str(text)
        if len(text.encode()) > MAX_RAW_BYTES:
            raise ApiError(400, "Bad Request: text is too long")
        try:
            formatted = markup.parse(text, str(params.get("parse_mode") or "") or None)
        except markup.MarkupError as problem:
            raise ApiError(400, f"Bad Request: {problem}") from None
        if not formatted.text:
            raise ApiError(400, "Bad Request: message text is empty")
        if len(formatted.text) > MAX_TEXT:
            raise ApiError(400, "Bad Request: message is too long")
        if not params.get("parse_mode") and params.get("entities") is not None:
            given = nested(params["entities"])
            if not isinstance(given, list):
                raise ApiError(400, "Bad Request: can't parse entities JSON object")
            return markup.Formatted(formatted.text, tuple(given))
        return formatted

    def _known(self, params: Params) -> Chat:
        if params.get("chat_id") in (None, ""):
            raise ApiError(400, "Bad Request: chat_id is empty")
        chat = self._store.chat("telegram", str(params["chat_id"]))
        if chat is None or not chat.facts.get("started"):
            raise ApiError(400, "Bad Request: chat not found")
        return chat

    def _writable(self, params: Params) -> Chat:
        chat = self._known(params)
        if "migrated_to" in chat.facts:
            new = int(chat.facts["migrated_to"])
            raise ApiError(400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=new)
        if chat.facts.get("blocked"):
            is_private = chat.kind == "private"
            why = "bot was blocked by the user" if is_private else "bot was kicked from the group chat"
            raise ApiError(403, f"Forbidden: {why}")
        return chat

    def _thread(self, chat: Chat, params: Params) -> int | None:
        """The topic, which must be one of the chat's. The General topic has no id: 1 is not found either."""
        if params.get("message_thread_id") in (None, "", 0, "0"):
            return None
        thread = integer(params["message_thread_id"], -1)
        if thread == 1 or thread not in chat.facts.get("topics", ()):
            raise ApiError(400, "Bad Request: message thread not found")
        return thread

    def _reply_to(self, chat: Chat, params: Params) -> str | None:
        given = nested(params["reply_parameters"]) if params.get("reply_parameters") is not None else {}
        if not isinstance(given, dict):
            raise ApiError(400, "Bad Request: can't parse reply parameters JSON object")
        wanted = given.get("message_id", params.get("reply_to_message_id"))
        if wanted in (None, "", 0):
            return None
        if self._store.message(chat, str(wanted)) is not None:
            return str(wanted)
        if is_true(given.get("allow_sending_without_reply")):
            return None
        raise ApiError(400, "Bad Request: message to be replied not found")

    def _own_message(self, chat: Chat, params: Params, verb: str, participle: str) -> Message:
        message = self._store.message(chat, str(integer(params.get("message_id"), 0)))
        if message is None:
            raise ApiError(400, f"Bad Request: message to {verb} not found")
        if not message.is_bot:
            raise ApiError(400, f"Bad Request: message can't be {participle}")
        return message

    def _limit(self, chat: Chat) -> None:
        """The flood limit, when there is one: a sliding window over the sends and edits of a chat."""
        flood = self._config.telegram_flood
        if flood is None:
            return
        now_ms = self._clock.now_ms()
        recent = self._recent.at_ms[chat.id]
        while recent and recent[0] <= now_ms - flood.per_ms:
            recent.popleft()
        if len(recent) >= flood.count:
            wait_s = max(1, -(-(recent[0] + flood.per_ms - now_ms) // 1000))
            raise ApiError(429, f"Too Many Requests: retry after {wait_s}", retry_after=wait_s)
        recent.append(now_ms)

    # how Telegram writes things

    @property
    def me(self) -> dict[str, Any]:
        """The bot as a User object."""
        return {"id": self._bot.id, "is_bot": True, "first_name": BOT_NAME, "username": BOT_USERNAME}

    def wire_person(self, person: Person) -> dict[str, Any]:
        return {
            "id": int(person.id),
            "is_bot": False,
            "first_name": person.name,
            "username": person.username,
            "language_code": "en",
        }

    def wire_chat(self, chat: Chat) -> dict[str, Any]:
        if chat.kind == "private":
            person = self._store.person("telegram", chat.id)
            name = {"first_name": person.name, "username": person.username} if person else {}
            return {"id": int(chat.id), **name, "type": "private"}
        wired = {"id": int(chat.id), "title": chat.title, "type": chat.kind}
        return {**wired, "is_forum": True} if chat.facts.get("topics") else wired

    def wire(self, chat: Chat, message: Message, *, with_reply: bool = True) -> dict[str, Any]:
        """The Message object; a message that it replies to is nested one level deep."""
        person = None if message.is_bot else self._store.person("telegram", message.author)
        wired: dict[str, Any] = {
            "message_id": int(message.id),
            "from": self.wire_person(person) if person else self.me,
            "chat": self.wire_chat(chat),
            "date": message.created_ms // 1000,
        }
        if "thread" in message.detail:
            wired.update(message_thread_id=message.detail["thread"], is_topic_message=True)
        if with_reply and (reply_to := message.detail.get("reply_to")) is not None:
            replied = self._store.message(chat, reply_to)
            if replied is not None:
                wired["reply_to_message"] = self.wire(chat, replied, with_reply=False)
        if message.edited_ms is not None:
            wired["edit_date"] = message.edited_ms // 1000
        wired["text"] = message.text
        if message.detail.get("entities"):
            wired["entities"] = message.detail["entities"]
        if message.detail.get("keyboard"):
            wired["reply_markup"] = {"inline_keyboard": message.detail["keyboard"]}
        return wired

    def _tell(self, name: str, message: Message) -> None:
        self._bus.tell(name, {"platform": "telegram", "chat": message.chat, "id": message.id})
