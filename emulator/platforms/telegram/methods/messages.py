"""The methods with which a bot writes in a chat and answers button presses, with Telegram's rules and limits.

Source: https://core.telegram.org/bots/api#available-methods
"""

from emulator.platforms import files, reactions
from emulator.platforms.telegram.calls import (
    ApiMethod,
    MethodResult,
    Params,
    TelegramError,
    is_true,
    keyboard,
    parse_nested,
)
from emulator.platforms.telegram.methods import managed
from emulator.platforms.telegram.methods.sender import TelegramSender
from emulator.platforms.telegram.queue import UpdateQueue
from emulator.platforms.telegram.texts import formatted_text

TYPING_MS = 5_000
DELETE_LIFE_MS = 48 * 3_600_000  # how long a bot may delete a message
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


class TelegramMessages:
    """Every method first checks the chat, then the topic, the message and the rate limit."""

    def __init__(self, sender: TelegramSender, queue: UpdateQueue) -> None:
        self._sender, self._queue = sender, queue
        self._store, self._bus, self._places, self._clock = sender.store, sender.bus, sender.places, sender.clock

    def methods(self) -> tuple[ApiMethod, ...]:
        return (
            ApiMethod("sendMessage", self._send_message),
            ApiMethod("sendChatAction", self._send_chat_action),
            ApiMethod("editMessageText", self._edit_message_text),
            ApiMethod("editMessageReplyMarkup", self._edit_reply_markup),
            ApiMethod("deleteMessage", self._delete_message),
            ApiMethod("deleteMessages", self._delete_messages),
            ApiMethod("setMessageReaction", self._set_message_reaction),
            ApiMethod("answerCallbackQuery", self._answer_callback_query),
        )

    async def _send_message(self, params: Params) -> MethodResult:
        formatted = formatted_text(params)
        buttons = keyboard(params)
        chat = self._places.writable(params)
        asked = managed.request_in(params)
        if asked is not None:
            buttons = [[{"text": asked["text"], "callback_data": managed.TAP}]]
        detail = {"entities": list(formatted.entities), **self._sender.placed(chat, params, buttons)}
        self._places.flood.take(chat)
        return self._sender.sent(chat, formatted.text, {**detail, **({"bot_request": asked} if asked else {})})

    async def _send_chat_action(self, params: Params) -> MethodResult:
        action = str(params.get("action") or "")
        if action not in ACTIONS:
            raise TelegramError(400, "Bad Request: wrong parameter action in request")
        chat = self._places.writable(params)
        self._places.thread(chat, params)
        self._bus.publish("typing", {"platform": "telegram", "chat": chat.id, "action": action, "for_ms": TYPING_MS})
        return MethodResult(True)

    async def _edit_message_text(self, params: Params) -> MethodResult:
        formatted = formatted_text(params)
        buttons = keyboard(params)
        chat = self._places.writable(params)
        message = self._places.own_message(chat, params)
        if files.of(message.detail):
            raise TelegramError(400, "Bad Request: there is no text in the message to edit")
        return self._sender.edit(chat, message, buttons, formatted.text, entities=list(formatted.entities))

    async def _edit_reply_markup(self, params: Params) -> MethodResult:
        buttons = keyboard(params)
        chat = self._places.writable(params)
        return self._sender.edit(chat, self._places.own_message(chat, params), buttons)

    async def _delete_message(self, params: Params) -> MethodResult:
        chat = self._places.writable(params)
        message = self._places.message(chat, params, "delete")
        is_old = self._clock.now_ms() - message.created_ms > DELETE_LIFE_MS
        if is_old or (not message.is_bot and chat.kind != "private"):
            raise TelegramError(400, "Bad Request: message can't be deleted")
        self._store.delete(message, now_ms=self._clock.now_ms())
        self._sender.publish(message)
        return MethodResult(True)

    async def _delete_messages(self, params: Params) -> MethodResult:
        """Delete up to 100 messages; those that are gone are passed over."""
        chat, wanted = self._places.writable(params), parse_nested(params.get("message_ids", "[]"))
        if not isinstance(wanted, list) or not 1 <= len(wanted) <= 100:
            raise TelegramError(400, "Bad Request: message identifiers are not specified")
        for message_id in wanted:
            if self._store.message(chat, str(message_id)) is not None:
                await self._delete_message({"chat_id": chat.id, "message_id": message_id})
        return MethodResult(True)

    async def _set_message_reaction(self, params: Params) -> MethodResult:
        chat = self._places.writable(params)
        message = self._places.message(chat, params, "react")
        given = parse_nested(params["reaction"]) if params.get("reaction") is not None else []
        if not isinstance(given, list) or not all(isinstance(reaction, dict) for reaction in given):
            raise TelegramError(400, "Bad Request: can't parse reaction types JSON object")
        if len(given) > 1:
            raise TelegramError(400, "Bad Request: REACTIONS_TOO_MANY")
        emoji = [str(reaction.get("emoji")) for reaction in given if reaction.get("type") == "emoji"]
        if len(emoji) != len(given) or not REACTIONS.issuperset(emoji):
            raise TelegramError(400, "Bad Request: REACTION_INVALID")
        detail = reactions.chosen(message.detail, str(self._sender.bot.id), emoji)
        self._sender.publish(self._store.change(message, detail=detail, edited_ms=None))
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
