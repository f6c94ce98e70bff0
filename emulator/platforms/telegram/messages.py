"""The methods with which a bot writes in a chat and answers button presses, with Telegram's rules and limits.

Source: https://core.telegram.org/bots/api#available-methods
"""

from typing import Any

from emulator.platforms import reactions
from emulator.platforms.bus import EventBus
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.initial_people import TelegramBot
from emulator.platforms.rate_window import RateWindow
from emulator.platforms.store import FakeChat, FakeMessage, PlatformStore
from emulator.platforms.telegram import markup
from emulator.platforms.telegram.calls import (
    ApiMethod,
    MethodResult,
    Params,
    TelegramError,
    integer,
    is_true,
    keyboard,
    parse_nested,
)
from emulator.platforms.telegram.objects import TelegramObjects
from emulator.platforms.telegram.queue import UpdateQueue

MAX_TEXT = 4096  # code points, after parsing
MAX_RAW_BYTES = 32_768  # before parsing
TYPING_MS = 5_000
QUERY_LIFE_MS = 150_000  # how long a bot may answer a button press
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
_TEXT = "parse_mode entities link_preview_options reply_markup business_connection_id"
_SEND = (
    "chat_id message_thread_id direct_messages_topic_id disable_notification protect_content allow_paid_broadcast"
    " message_effect_id suggested_post_parameters reply_parameters reply_to_message_id ephemeral_message_parameters"
)


class TelegramMessages:
    """Every method first checks the chat, then the topic, the message and the rate limit."""

    def __init__(
        self,
        config: PlatformsConfig,
        store: PlatformStore,
        bus: EventBus,
        bot: TelegramBot,
        objects: TelegramObjects,
        queue: UpdateQueue,
    ) -> None:
        self._config, self._store, self._bus, self._bot = config, store, bus, bot
        self._objects, self._queue = objects, queue
        self._clock = config.clock
        self._recent = RateWindow()

    def methods(self) -> tuple[ApiMethod, ...]:
        edit = f"chat_id message_id inline_message_id text rich_message {_TEXT}"
        action = "chat_id action message_thread_id business_connection_id"
        answer = "callback_query_id text show_alert url cache_time"
        return (
            ApiMethod("getChat", self._get_chat, "chat_id"),
            ApiMethod("sendMessage", self._send_message, f"text {_SEND} {_TEXT}"),
            ApiMethod("sendChatAction", self._send_chat_action, action),
            ApiMethod("editMessageText", self._edit_message_text, edit),
            ApiMethod("deleteMessage", self._delete_message, "chat_id message_id"),
            ApiMethod("setMessageReaction", self._set_message_reaction, "chat_id message_id reaction is_big"),
            ApiMethod("answerCallbackQuery", self._answer_callback_query, answer),
        )

    async def _get_chat(self, params: Params) -> MethodResult:
        return MethodResult(self._objects.chat(self._known(params)))

    async def _send_message(self, params: Params) -> MethodResult:
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
        self._publish(message)
        return MethodResult(self._objects.message(chat, message))

    async def _send_chat_action(self, params: Params) -> MethodResult:
        action = str(params.get("action") or "")
        if action not in ACTIONS:
            raise TelegramError(400, "Bad Request: wrong parameter action in request")
        chat = self._writable(params)
        self._thread(chat, params)
        self._bus.publish("typing", {"platform": "telegram", "chat": chat.id, "action": action, "for_ms": TYPING_MS})
        return MethodResult(True)

    async def _edit_message_text(self, params: Params) -> MethodResult:
        formatted = self._formatted(params)
        buttons = keyboard(params)
        chat = self._writable(params)
        message = self._message(chat, params, "edit")
        if not message.is_bot:
            raise TelegramError(400, "Bad Request: message can't be edited")
        entities = list(formatted.entities)
        same = message.text == formatted.text and message.detail.get("entities") == entities
        if same and message.detail.get("keyboard") == buttons:
            raise TelegramError(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are exactly the"
                " same as a current content and reply markup of the message",
            )
        self._limit(chat)
        detail = {key: value for key, value in message.detail.items() if key != "keyboard"} | {"entities": entities}
        if buttons is not None:
            detail["keyboard"] = buttons
        message = self._store.change(message, text=formatted.text, detail=detail, edited_ms=self._clock.now_ms())
        self._publish(message)
        return MethodResult(self._objects.message(chat, message))

    async def _delete_message(self, params: Params) -> MethodResult:
        chat = self._writable(params)
        message = self._message(chat, params, "delete")
        if not message.is_bot and chat.kind != "private":
            raise TelegramError(400, "Bad Request: message can't be deleted")
        self._store.delete(message, now_ms=self._clock.now_ms())
        self._publish(message)
        return MethodResult(True)

    async def _set_message_reaction(self, params: Params) -> MethodResult:
        chat = self._writable(params)
        message = self._message(chat, params, "react")
        given = parse_nested(params["reaction"]) if params.get("reaction") is not None else []
        if not isinstance(given, list) or not all(isinstance(reaction, dict) for reaction in given):
            raise TelegramError(400, "Bad Request: can't parse reaction types JSON object")
        if len(given) > 1:
            raise TelegramError(400, "Bad Request: REACTIONS_TOO_MANY")
        emoji = [str(reaction.get("emoji")) for reaction in given if reaction.get("type") == "emoji"]
        if len(emoji) != len(given) or not REACTIONS.issuperset(emoji):
            raise TelegramError(400, "Bad Request: REACTION_INVALID")
        detail = reactions.chosen(message.detail, str(self._bot.id), emoji)
        self._publish(self._store.change(message, detail=detail, edited_ms=None))
        return MethodResult(True)

    async def _answer_callback_query(self, params: Params) -> MethodResult:
        pressed = self._queue.find_press(str(params.get("callback_query_id")))
        if pressed is None or self._clock.now_ms() - pressed.created_ms > QUERY_LIFE_MS:
            raise TelegramError(
                400, "Bad Request: query is too old and response timeout expired or query ID is invalid"
            )
        text = str(params.get("text") or "")
        if len(text) > 200:
            raise TelegramError(400, "Bad Request: MESSAGE_TOO_LONG")
        if text:
            notice = {"platform": "telegram", "chat": pressed.chat, "person": pressed.person, "text": text}
            self._bus.publish("notice", {**notice, "is_alert": is_true(params.get("show_alert"))})
        return MethodResult(True)

    # rules

    def _formatted(self, params: Params) -> markup.Formatted:
        text = params.get("text")
        text = "" if text is None else str(text)
        if len(text.encode()) > MAX_RAW_BYTES:
            raise TelegramError(400, "Bad Request: text is too long")
        try:
            formatted = markup.parse(text, str(params.get("parse_mode") or "") or None)
        except markup.MarkupError as problem:
            raise TelegramError(400, f"Bad Request: {problem}") from None
        if not formatted.text:
            raise TelegramError(400, "Bad Request: message text is empty")
        if len(formatted.text) > MAX_TEXT:
            raise TelegramError(400, "Bad Request: message is too long")
        if not params.get("parse_mode") and params.get("entities") is not None:
            given = parse_nested(params["entities"])
            if not isinstance(given, list):
                raise TelegramError(400, "Bad Request: can't parse entities JSON object")
            return markup.Formatted(formatted.text, tuple(given))
        return formatted

    def _known(self, params: Params) -> FakeChat:
        if params.get("chat_id") in (None, ""):
            raise TelegramError(400, "Bad Request: chat_id is empty")
        chat = self._store.chat("telegram", str(params["chat_id"]))
        if chat is None or not chat.facts.get("started"):
            raise TelegramError(400, "Bad Request: chat not found")
        return chat

    def _writable(self, params: Params) -> FakeChat:
        chat = self._known(params)
        if "migrated_to" in chat.facts:
            new = int(chat.facts["migrated_to"])
            raise TelegramError(
                400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=new
            )
        if chat.facts.get("blocked"):
            is_private = chat.kind == "private"
            why = "bot was blocked by the user" if is_private else "bot was kicked from the group chat"
            raise TelegramError(403, f"Forbidden: {why}")
        return chat

    def _thread(self, chat: FakeChat, params: Params) -> int | None:
        """The topic, which must belong to the chat. The General topic has no id: Telegram does not find 1."""
        if params.get("message_thread_id") in (None, "", 0, "0"):
            return None
        thread = integer(params["message_thread_id"], -1)
        if thread == 1 or thread not in chat.facts.get("topics", ()):
            raise TelegramError(400, "Bad Request: message thread not found")
        if thread in chat.facts.get("closed_topics", ()):
            raise TelegramError(400, "Bad Request: TOPIC_CLOSED")
        return thread

    def _reply_to(self, chat: FakeChat, params: Params) -> str | None:
        given = parse_nested(params["reply_parameters"]) if params.get("reply_parameters") is not None else {}
        if not isinstance(given, dict):
            raise TelegramError(400, "Bad Request: can't parse reply parameters JSON object")
        wanted = given.get("message_id", params.get("reply_to_message_id"))
        if wanted in (None, "", 0):
            return None
        if self._store.message(chat, str(wanted)) is not None:
            return str(wanted)
        if is_true(given.get("allow_sending_without_reply")):
            return None
        raise TelegramError(400, "Bad Request: message to be replied not found")

    def _message(self, chat: FakeChat, params: Params, verb: str) -> FakeMessage:
        message = self._store.message(chat, str(integer(params.get("message_id"), 0)))
        if message is None:
            raise TelegramError(400, f"Bad Request: message to {verb} not found")
        return message

    def _limit(self, chat: FakeChat) -> None:
        """Apply the rate limit, if there is one, to the sends and edits of a chat."""
        if self._config.telegram_rate_limit is None:
            return
        room = self._recent.take(chat.id, self._config.telegram_rate_limit, now_ms=self._clock.now_ms())
        if room.is_over:
            wait_s = max(1, -(-room.opens_ms // 1000))
            raise TelegramError(429, f"Too Many Requests: retry after {wait_s}", retry_after=wait_s)

    def _publish(self, message: FakeMessage) -> None:
        self._bus.publish("message", {"platform": "telegram", "chat": message.chat, "id": message.id})
